-- A worker's running jobs: as for lapsed ones.
-- :worker its id, :most how many at most.
SELECT seq, fence, started_at_ms, beat_at_ms, iif(phase = 1, handed, failures + crashes + 1),
    iif(phase = 1, checks + 1, 0), worker FROM job INDEXED BY job_lease
WHERE state = 2 AND worker = :worker LIMIT :most
