-- Forget incidents that are over, but for the latest.
-- :id the number of a new incident, :kept how many numbers before it are kept.
DELETE FROM fairlane.incident WHERE id <= %(id)s - %(kept)s AND resolved_at_ms IS NOT NULL
