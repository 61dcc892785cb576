-- A job.
-- :id. No row: there is none.
SELECT
    job.seq, job.id, lane.task, lane.queue, lane.tenant, lane.tier, job.state, job.phase, job.args, job.arrival_ms,
    job.express, job.fence, job.failures, job.crashes, job.checks, job.preemptions, job.worker, job.rule,
    job.enqueued_at_ms, job.scheduled_at_ms, job.available_at_ms, job.started_at_ms, job.finished_at_ms,
    job.expires_at_ms, job.timer_ms, job.dedup, job.progress, job.checkpoint, job.result, job.reason, job.errors,
    job.tags, job.trace, job.reference, job.behind, job.on_failure, job.successor, job.bundle, job.handed
FROM job JOIN lane ON lane.id = job.lane
WHERE job.id = :id
