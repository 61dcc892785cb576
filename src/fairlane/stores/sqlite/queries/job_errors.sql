-- A job's failed and crashed runs, JSON or null.
-- :seq its number.
SELECT errors FROM job WHERE seq = :seq
