-- Forget a schedule; no row comes back when there is none of this name.
-- :name its name.
DELETE FROM fairlane.schedule WHERE name = %(name)s RETURNING name
