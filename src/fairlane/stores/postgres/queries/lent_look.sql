-- What is to be known before jobs are stored in a caller's transaction: which database this is, whether a bound on
-- waiting jobs is set, the instant that arrivals count from, and numbers for the jobs, in no order.
-- In order: how many.
SELECT
%% this_database
, EXISTS (SELECT 1 FROM fairlane.rule WHERE guarded = 1), value,
    ARRAY(SELECT nextval('fairlane.job_seq') FROM generate_series(1, %s))
FROM fairlane.counter WHERE name = 'enqueued_at_ms'
