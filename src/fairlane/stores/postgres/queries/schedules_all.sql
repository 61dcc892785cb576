-- Every schedule, by name.
SELECT
    name, spec, source, created_at_ms, next_at_ms, due_at_ms, pause, last_at_ms, last_job, runs, missed, skipped, refused,
    error, error_at_ms, gone_at_ms, changed_at_ms, changed_by
FROM fairlane.schedule ORDER BY name
