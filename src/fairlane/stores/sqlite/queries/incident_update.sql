-- Change an open incident; no row comes back when it is not open.
-- :id its number, the others named as the columns are.
UPDATE incident SET
    job = :job, task = :task, tenant = :tenant, since_ms = :since_ms, objective_ms = :objective_ms, count = :count,
    causes = :causes, on_breach = :on_breach, escalated = :escalated, note = :note, seen_at_ms = :seen_at_ms,
    notified_at_ms = :notified_at_ms, notices = :notices, resolved_at_ms = :resolved_at_ms
WHERE id = :id AND resolved_at_ms IS NULL
RETURNING id
