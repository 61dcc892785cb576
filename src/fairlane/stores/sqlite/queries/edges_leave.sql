-- Let a job wait for others no more.
-- :child its number, :marks edges with one of these stay.
DELETE FROM edge WHERE child = :child AND marks & :marks = 0
