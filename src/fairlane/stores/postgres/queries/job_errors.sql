-- A job's failed and crashed runs, JSON or null.
-- :seq its number.
SELECT errors FROM fairlane.job WHERE seq = %(seq)s
