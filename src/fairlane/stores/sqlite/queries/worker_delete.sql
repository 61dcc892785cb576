-- Forget a worker; returns its pool. No row: it was not on record.
-- :id.
DELETE FROM worker WHERE id = :id RETURNING pool
