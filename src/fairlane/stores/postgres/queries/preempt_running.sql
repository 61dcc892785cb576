-- The running jobs: number, worker, queue, tier, start, whether the task gives way, whether express, preemptions,
-- whether asked to stop, and for which job.
SELECT
    seq, coalesce(worker, ''), queue, tier, started_at_ms, coalesce(preemptible, 0), express IS NOT NULL, preemptions,
    ask IS NOT NULL, asked_for
FROM fairlane.job JOIN fairlane.lane ON lane.id = job.lane LEFT JOIN fairlane.task ON task.name = lane.task
WHERE state = 2
