-- How many crashes a task's jobs survive. No row: the code has not declared it.
-- :task its name.
SELECT max_crashes FROM task WHERE name = :task
