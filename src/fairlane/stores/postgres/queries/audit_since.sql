-- What was changed since an instant, on what, and when, the latest first.
-- :since_ms the instant, :most how many at most.
SELECT what, target, at_ms FROM fairlane.audit WHERE at_ms >= %(since_ms)s ORDER BY id DESC LIMIT %(most)s
