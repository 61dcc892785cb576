-- What is set for a queue, task, tenant or named limit. No row: nothing.
-- :kind, :name.
SELECT body FROM rule WHERE kind = :kind AND name = :name
