-- The operation that has been due longest.
-- :now_ms the instant. No row: none is due.
SELECT
    id, body, state, total, more, done, refused, refusals, place, last, due_at_ms, by, reason, created_at_ms, ended_at_ms
FROM operation INDEXED BY operation_due WHERE state = 0 AND due_at_ms <= :now_ms
ORDER BY due_at_ms LIMIT 1
