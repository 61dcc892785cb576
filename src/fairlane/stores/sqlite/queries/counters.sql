-- The counters.
SELECT name, value FROM counter
