-- Changes, the latest first.
-- :below a number, :target null for any, :most how many at most.
SELECT id, at_ms, by, what, target, reason, why FROM fairlane.audit
WHERE id < %(below)s AND (%(target)s::text IS NULL OR target = %(target)s) ORDER BY id DESC LIMIT %(most)s
