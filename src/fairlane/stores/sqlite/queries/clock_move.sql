-- Move the instant that arrivals count from forwards, never back; returns what it is now.
-- :now_ms this producer's clock.
UPDATE counter SET value = max(value, :now_ms) WHERE name = 'enqueued_at_ms' RETURNING value
