-- The latest incidents, open or not, newest first.
-- :most how many at most.
SELECT
    id, queue, tier, job, task, tenant, since_ms, objective_ms, count, causes, on_breach, escalated, note,
    opened_at_ms, seen_at_ms, notified_at_ms, notices, resolved_at_ms
FROM fairlane.incident ORDER BY id DESC LIMIT %(most)s
