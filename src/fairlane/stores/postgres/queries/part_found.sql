-- Part of other queries: the job with a number that was found before. OFFSET 0 keeps PostgreSQL from looking for jobs by
-- what a filter says of them, and then for the number among those; so jobs come in the order of the numbers.
SELECT * FROM fairlane.job WHERE job.seq = meant.seq OFFSET 0
