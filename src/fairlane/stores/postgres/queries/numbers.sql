-- Draw numbers for new jobs.
-- In order: how many.
SELECT nextval('fairlane.job_seq') FROM generate_series(1, %s)
