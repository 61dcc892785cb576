-- Forget operations that ended, beyond a number of the latest.
-- :keep how many stay.
DELETE FROM fairlane.operation WHERE state IN (1, 2) AND id < (SELECT id FROM fairlane.operation ORDER BY id DESC LIMIT 1 OFFSET %(keep)s)
