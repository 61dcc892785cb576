-- Operations, newest first.
-- :most how many at most.
SELECT
    id, body, state, total, more, done, refused, refusals, place, last, due_at_ms, by, reason, created_at_ms, ended_at_ms
FROM operation ORDER BY id DESC LIMIT :most
