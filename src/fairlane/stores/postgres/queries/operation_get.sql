-- An operation.
-- :id. No row: there is none.
SELECT
    id, body, state, total, more, done, refused, refusals, place, last, due_at_ms, by, reason, created_at_ms, ended_at_ms
FROM fairlane.operation WHERE id = %(id)s
