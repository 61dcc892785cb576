-- A job that others wait for has ended; nothing is written when none is left.
-- :parent its number, :state how it ended.
INSERT INTO release SELECT :parent, max(child), :state FROM edge WHERE parent = :parent HAVING max(child) IS NOT NULL
ON CONFLICT (parent, upto) DO NOTHING
