-- Forget incidents that are over, but for the latest.
-- :id the number of a new incident, :kept how many numbers before it are kept.
DELETE FROM incident WHERE id <= :id - :kept AND resolved_at_ms IS NOT NULL
