-- Workers that run jobs and are not on record; those that are alive all the same hide no others.
SELECT DISTINCT worker FROM job INDEXED BY job_lease
WHERE state = 2 AND worker <> '' AND worker NOT IN (SELECT id FROM worker)
