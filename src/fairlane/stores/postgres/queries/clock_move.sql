-- Move the instant that arrivals count from forwards, never back; returns what it is now.
-- :now_ms this producer's clock.
UPDATE fairlane.counter SET value = greatest(value, %(now_ms)s) WHERE name = 'enqueued_at_ms' RETURNING value
