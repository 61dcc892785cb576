-- The pools' virtual times and counters.
SELECT name, now, since, activations, seen, runs, total_us FROM pool
