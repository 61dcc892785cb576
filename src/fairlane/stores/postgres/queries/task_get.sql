-- What the code declares of a task. No row: nothing yet.
-- :name.
SELECT limits, max_attempts, max_crashes, preemptible, verify FROM fairlane.task WHERE name = %(name)s
