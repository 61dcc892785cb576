-- The workers on record.
SELECT id FROM worker
