-- How many express jobs wait in a phase.
-- :phase its number.
SELECT count(*) FROM job INDEXED BY job_express WHERE express IS NOT NULL AND state <= 1 AND phase = :phase
