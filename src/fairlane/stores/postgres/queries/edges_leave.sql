-- Let a job wait for others no more.
-- :child its number, :marks edges with one of these stay.
DELETE FROM fairlane.edge WHERE child = %(child)s AND (marks & %(marks)s) = 0
