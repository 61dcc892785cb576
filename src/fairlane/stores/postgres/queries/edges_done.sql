-- Followers of a job have been told.
-- :parent its number, :upto the last of them.
DELETE FROM fairlane.edge WHERE parent = %(parent)s AND child <= %(upto)s
