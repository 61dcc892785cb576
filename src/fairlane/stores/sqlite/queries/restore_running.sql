-- The running jobs of a copy of the store: nobody knows what became of them.
SELECT seq, fence, started_at_ms, beat_at_ms FROM job INDEXED BY job_lease WHERE state = 2
