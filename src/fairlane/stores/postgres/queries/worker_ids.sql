-- The workers on record.
SELECT id FROM fairlane.worker
