-- Move the instant that arrivals count from forwards, unless somebody else does just now. No row: then.
-- :now_ms this producer's clock.
UPDATE fairlane.counter SET value = greatest(value, %(now_ms)s)
WHERE name = (SELECT name FROM fairlane.counter WHERE name = 'enqueued_at_ms' FOR UPDATE SKIP LOCKED)
RETURNING value
