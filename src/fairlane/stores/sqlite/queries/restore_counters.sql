-- The counters of the file that is replaced, which is attached as live.
SELECT name, value FROM live.counter
