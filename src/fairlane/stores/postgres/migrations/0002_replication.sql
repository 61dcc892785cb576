-- A publication FOR ALL TABLES, which others may make of the database, forbids to delete rows of a table that has no key
-- that tells them apart: all others have one.
ALTER TABLE fairlane.inbox REPLICA IDENTITY FULL;
