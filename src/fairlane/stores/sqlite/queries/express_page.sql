-- Jobs that wait in the express lane, in their order.
-- :most how many at most.
SELECT seq FROM job INDEXED BY job_express WHERE express IS NOT NULL AND state <= 1 ORDER BY express LIMIT :most
