-- The stored state has noticed the passing of time.
-- In order: the instant.
UPDATE fairlane.counter SET value = %s WHERE name = 'noticed_at_ms'
