-- The highest job number ever given.
SELECT coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'job'), 0)
