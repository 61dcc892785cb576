-- Forget the highest number of a table; another is put in its place.
-- :name the table.
DELETE FROM sqlite_sequence WHERE name = :name
