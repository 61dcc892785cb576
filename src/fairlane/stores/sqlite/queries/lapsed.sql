-- Running jobs whose lease ran out, the longest lapsed first: number, fence, start, last heartbeat, attempt, check (0: none), worker.
-- :now_ms the instant, :most how many at most.
SELECT seq, fence, started_at_ms, beat_at_ms, iif(phase = 1, handed, failures + crashes + 1),
    iif(phase = 1, checks + 1, 0), worker FROM job INDEXED BY job_lease
WHERE state = 2 AND timer_ms <= :now_ms
ORDER BY timer_ms LIMIT :most
