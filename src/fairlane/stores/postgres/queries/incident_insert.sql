-- Raise an incident; no row comes back when one of its queue and tier is open.
-- Named as the columns are.
INSERT INTO fairlane.incident (
    queue, tier, job, task, tenant, since_ms, objective_ms, count, causes, on_breach, escalated, note, opened_at_ms,
    seen_at_ms, notified_at_ms, notices, resolved_at_ms
) VALUES (
    %(queue)s, %(tier)s, %(job)s, %(task)s, %(tenant)s, %(since_ms)s, %(objective_ms)s, %(count)s, %(causes)s, %(on_breach)s, %(escalated)s, %(note)s,
    %(opened_at_ms)s, %(seen_at_ms)s, %(notified_at_ms)s, %(notices)s, %(resolved_at_ms)s
)
ON CONFLICT (queue, tier) WHERE resolved_at_ms IS NULL DO NOTHING
RETURNING id
