-- Forget the sessions of the backup: some were ended since.
DELETE FROM main.session
