-- What was changed since an instant, on what, and when, the latest first.
-- :since_ms the instant, :most how many at most.
SELECT what, target, at_ms FROM audit WHERE at_ms >= :since_ms ORDER BY id DESC LIMIT :most
