-- Forget a schedule; no row comes back when there is none of this name.
-- :name its name.
DELETE FROM schedule WHERE name = :name RETURNING name
