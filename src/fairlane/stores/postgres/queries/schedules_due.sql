-- The schedules that there is something to do about, the longest due first; no rows: there is nothing.
-- :now_ms the instant, :most how many.
SELECT
    name, spec, source, created_at_ms, next_at_ms, due_at_ms, pause, last_at_ms, last_job, runs, missed, skipped, refused,
    error, error_at_ms, gone_at_ms, changed_at_ms, changed_by
FROM fairlane.schedule WHERE due_at_ms <= %(now_ms)s ORDER BY due_at_ms LIMIT %(most)s
