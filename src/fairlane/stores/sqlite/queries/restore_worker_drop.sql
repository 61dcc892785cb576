-- Forget what the backup has in worker: it is about processes, and those of now count.
DELETE FROM main.worker
