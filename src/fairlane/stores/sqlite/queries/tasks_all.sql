-- What the code declares of tasks.
SELECT name, limits, max_attempts, max_crashes FROM task
