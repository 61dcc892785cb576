-- Forget a worker; returns its pool. No row: it was not on record.
-- :id.
DELETE FROM fairlane.worker WHERE id = %(id)s RETURNING pool
