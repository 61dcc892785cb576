-- What was logged after a row, in order.
-- :version the row. The first number is :version + 1 unless older rows were pruned.
SELECT id, kind, body FROM fairlane.log WHERE id > %(version)s ORDER BY id
