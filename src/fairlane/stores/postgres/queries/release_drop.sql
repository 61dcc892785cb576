-- All followers have been told.
-- :parent, :upto the row.
DELETE FROM fairlane.release WHERE parent = %(parent)s AND upto = %(upto)s
