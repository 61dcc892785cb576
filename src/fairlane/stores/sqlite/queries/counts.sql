-- How many jobs are in each state. Waiting ones are counted by lane; the others by an index that holds nothing else,
-- since the table itself holds everything that jobs carry.
WITH express AS (SELECT state FROM job INDEXED BY job_express WHERE express IS NOT NULL AND state <= 1 AND state = 1)
SELECT 0 AS state, coalesce(sum(scheduled), 0) FROM lane INDEXED BY lane_waiting WHERE available > 0 OR scheduled > 0
UNION ALL
SELECT 1, coalesce(sum(available), 0) + (SELECT count(*) FROM express)
FROM lane INDEXED BY lane_waiting WHERE available > 0 OR scheduled > 0
UNION ALL
SELECT 2, count(*) FROM job INDEXED BY job_lease WHERE state = 2
UNION ALL
SELECT state, count(*) FROM job INDEXED BY job_ended WHERE state >= 3 GROUP BY state
