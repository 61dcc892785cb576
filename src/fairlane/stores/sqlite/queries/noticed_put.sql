-- The stored state has noticed the passing of time.
-- In order: the instant.
UPDATE counter SET value = ? WHERE name = 'noticed_at_ms'
