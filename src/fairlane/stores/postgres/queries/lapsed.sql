-- Running jobs whose lease ran out, the longest lapsed first: number, fence, start, last heartbeat, attempt, check (0: none), worker.
-- :now_ms the instant, :most how many at most.
SELECT seq, fence, started_at_ms, beat_at_ms, CASE WHEN phase = 1 THEN handed ELSE failures + crashes + 1 END,
    CASE WHEN phase = 1 THEN checks + 1 ELSE 0 END, worker FROM fairlane.job
WHERE state = 2 AND timer_ms <= %(now_ms)s
ORDER BY timer_ms LIMIT %(most)s
