-- Forget the log: the tables say it all.
DELETE FROM log
