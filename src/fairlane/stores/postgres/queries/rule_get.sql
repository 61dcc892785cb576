-- What is set for a queue, task, tenant or named limit. No row: nothing.
-- :kind, :name.
SELECT body FROM fairlane.rule WHERE kind = %(kind)s AND name = %(name)s
