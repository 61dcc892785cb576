-- Followers of a job have been told.
-- :parent its number, :upto the last of them.
DELETE FROM edge WHERE parent = :parent AND child <= :upto
