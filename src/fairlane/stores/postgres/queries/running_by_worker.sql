-- How many jobs each worker runs.
SELECT worker, count(*) FROM fairlane.job WHERE state = 2 GROUP BY worker
