-- Note what an operation has done, and whether that is all.
-- :id, :state, :done, :refused, :refusals as JSON, :place the last job, :due_at_ms, :ended_at_ms null while it goes on.
UPDATE fairlane.operation SET
    state = %(state)s, done = %(done)s, refused = %(refused)s, refusals = %(refusals)s, place = %(place)s, due_at_ms = %(due_at_ms)s,
    ended_at_ms = %(ended_at_ms)s
WHERE id = %(id)s
