-- Note what an operation has done, and whether that is all.
-- :id, :state, :done, :refused, :refusals as JSON, :place the last job, :due_at_ms, :ended_at_ms null while it goes on.
UPDATE operation SET
    state = :state, done = :done, refused = :refused, refusals = :refusals, place = :place, due_at_ms = :due_at_ms,
    ended_at_ms = :ended_at_ms
WHERE id = :id
