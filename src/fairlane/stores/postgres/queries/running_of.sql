-- A worker's running jobs: as for lapsed ones.
-- :worker its id, :most how many at most.
SELECT seq, fence, started_at_ms, beat_at_ms, CASE WHEN phase = 1 THEN handed ELSE failures + crashes + 1 END,
    CASE WHEN phase = 1 THEN checks + 1 ELSE 0 END, worker FROM fairlane.job
WHERE state = 2 AND worker = %(worker)s LIMIT %(most)s
