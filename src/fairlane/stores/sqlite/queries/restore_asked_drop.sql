-- Forget what the backup has in asked: it is about processes, and those of now count.
DELETE FROM main.asked
