-- Forget what the backup has in monitor: it is about processes, and those of now count.
DELETE FROM main.monitor
