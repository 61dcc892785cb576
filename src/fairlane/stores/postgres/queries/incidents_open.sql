-- The open incidents, oldest first.
SELECT
    id, queue, tier, job, task, tenant, since_ms, objective_ms, count, causes, on_breach, escalated, note,
    opened_at_ms, seen_at_ms, notified_at_ms, notices, resolved_at_ms
FROM fairlane.incident WHERE resolved_at_ms IS NULL ORDER BY id
