-- All followers have been told.
-- :parent, :upto the row.
DELETE FROM release WHERE parent = :parent AND upto = :upto
