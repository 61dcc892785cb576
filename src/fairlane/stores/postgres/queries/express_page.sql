-- Jobs that wait in the express lane, in their order.
-- :most how many at most.
SELECT seq FROM fairlane.job WHERE express > 0 AND state <= 1 ORDER BY express LIMIT %(most)s
