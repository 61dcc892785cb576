-- The running jobs: lane, number, the limits they count against (JSON, or null).
SELECT lane, seq, limits FROM job INDEXED BY job_lease WHERE state = 2
