-- Record what the code declares of a task.
-- :name, :limits as JSON, :max_attempts, :max_crashes, :preemptible 1 or 0, :verify as JSON or null.
INSERT INTO fairlane.task (name, limits, max_attempts, max_crashes, preemptible, verify)
VALUES (%(name)s, %(limits)s, %(max_attempts)s, %(max_crashes)s, %(preemptible)s, %(verify)s)
ON CONFLICT (name) DO UPDATE SET
    limits = excluded.limits, max_attempts = excluded.max_attempts, max_crashes = excluded.max_crashes,
    preemptible = excluded.preemptible, verify = excluded.verify
