-- Change an open incident; no row comes back when it is not open.
-- :id its number, the others named as the columns are.
UPDATE fairlane.incident SET
    job = %(job)s, task = %(task)s, tenant = %(tenant)s, since_ms = %(since_ms)s, objective_ms = %(objective_ms)s, count = %(count)s,
    causes = %(causes)s, on_breach = %(on_breach)s, escalated = %(escalated)s, note = %(note)s, seen_at_ms = %(seen_at_ms)s,
    notified_at_ms = %(notified_at_ms)s, notices = %(notices)s, resolved_at_ms = %(resolved_at_ms)s
WHERE id = %(id)s AND resolved_at_ms IS NULL
RETURNING id
