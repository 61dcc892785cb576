-- The highest number ever given in each table that never gives one twice.
SELECT name, seq FROM sqlite_sequence
