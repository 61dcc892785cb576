-- Forget operations that ended, beyond a number of the latest.
-- :keep how many stay.
DELETE FROM operation WHERE state IN (1, 2) AND id < (SELECT id FROM operation ORDER BY id DESC LIMIT 1 OFFSET :keep)
