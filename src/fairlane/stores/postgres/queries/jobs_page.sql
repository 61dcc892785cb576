-- Jobs that a filter means, newest first.
-- Parameters of part_meant_down and part_filter; :scan how many jobs to look at and :most how many to return at most.
SELECT
    job.seq, job.id, lane.task, lane.queue, lane.tenant, lane.tier, job.state, job.phase, job.args, job.arrival_ms,
    job.express, job.fence, job.failures, job.crashes, job.checks, job.preemptions, job.worker, job.rule,
    job.enqueued_at_ms, job.scheduled_at_ms, job.available_at_ms, job.started_at_ms, job.finished_at_ms,
    job.expires_at_ms, job.timer_ms, job.dedup, job.progress, job.checkpoint, job.result, job.reason, job.errors,
    job.tags, job.trace, job.reference, job.behind, job.on_failure, job.successor, job.bundle, job.handed
FROM (
    SELECT seq FROM (
        %% part_meant_down
    ) AS way ORDER BY seq DESC LIMIT %(scan)s
) AS meant
CROSS JOIN LATERAL (
    %% part_found
) AS job CROSS JOIN LATERAL (
    %% part_lane
) AS lane
WHERE
    %% part_filter
ORDER BY meant.seq DESC LIMIT %(most)s
