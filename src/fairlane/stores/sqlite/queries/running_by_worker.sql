-- How many jobs each worker runs.
SELECT worker, count(*) FROM job INDEXED BY job_lease WHERE state = 2 GROUP BY worker
