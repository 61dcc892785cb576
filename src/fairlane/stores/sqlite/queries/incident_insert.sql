-- Raise an incident; no row comes back when one of its queue and tier is open.
-- Named as the columns are.
INSERT INTO incident (
    queue, tier, job, task, tenant, since_ms, objective_ms, count, causes, on_breach, escalated, note, opened_at_ms,
    seen_at_ms, notified_at_ms, notices, resolved_at_ms
) VALUES (
    :queue, :tier, :job, :task, :tenant, :since_ms, :objective_ms, :count, :causes, :on_breach, :escalated, :note,
    :opened_at_ms, :seen_at_ms, :notified_at_ms, :notices, :resolved_at_ms
)
ON CONFLICT (queue, tier) WHERE resolved_at_ms IS NULL DO NOTHING
RETURNING id
