-- What a light transaction must know: whether a bound on waiting jobs is set, the instant that arrivals count from, and a
-- number for a job, as most of them store one; last, what its fate is asked by.
SELECT
    EXISTS (SELECT 1 FROM fairlane.rule WHERE guarded = 1), value, nextval('fairlane.job_seq'),
    pg_current_xact_id()::text,
%% part_line
FROM fairlane.counter WHERE name = 'enqueued_at_ms'
