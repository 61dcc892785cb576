-- Store a schedule, in place of the one of this name.
-- The values are named as the columns are; :spec and :pause are JSON.
INSERT INTO schedule VALUES (
    :name, :spec, :source, :created_at_ms, :next_at_ms, :due_at_ms, :pause, :last_at_ms, :last_job, :runs, :missed,
    :skipped, :refused, :error, :error_at_ms, :gone_at_ms, :changed_at_ms, :changed_by
)
ON CONFLICT (name) DO UPDATE SET
    spec = excluded.spec, source = excluded.source, created_at_ms = excluded.created_at_ms,
    next_at_ms = excluded.next_at_ms, due_at_ms = excluded.due_at_ms, pause = excluded.pause,
    last_at_ms = excluded.last_at_ms, last_job = excluded.last_job, runs = excluded.runs, missed = excluded.missed,
    skipped = excluded.skipped, refused = excluded.refused, error = excluded.error,
    error_at_ms = excluded.error_at_ms, gone_at_ms = excluded.gone_at_ms, changed_at_ms = excluded.changed_at_ms,
    changed_by = excluded.changed_by
