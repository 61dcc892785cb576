-- A job that others wait for has ended; nothing is written when none is left.
-- :parent its number, :state how it ended.
INSERT INTO fairlane.release SELECT %(parent)s, max(child), %(state)s FROM fairlane.edge WHERE parent = %(parent)s HAVING max(child) IS NOT NULL
ON CONFLICT (parent, upto) DO NOTHING
