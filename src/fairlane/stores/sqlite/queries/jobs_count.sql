-- How many jobs there are.
SELECT count(*) FROM job
