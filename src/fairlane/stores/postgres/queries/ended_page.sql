-- Jobs of some lanes that ended in one way, the latest end first: state, lane and instant are read from the index alone.
-- :state the state, :queue, :task, :tenant, :tier null for any, :before_ms and :before the last one of the page before,
-- :most how many at most.
SELECT finished_at_ms, seq FROM fairlane.job
WHERE state >= 3 AND state = %(state)s
    AND finished_at_ms <= %(before_ms)s AND (finished_at_ms < %(before_ms)s OR seq < %(before)s)
    AND (
        SELECT
            (%(queue)s::text IS NULL OR queue = %(queue)s)
            AND (%(task)s::text IS NULL OR task IN (%(task)s, %(task)s || ':verify'))
            AND (%(tenant)s::text IS NULL OR tenant = %(tenant)s)
            AND (%(tier)s::integer IS NULL OR tier = %(tier)s)
        FROM fairlane.lane WHERE lane.id = job.lane
    )
ORDER BY finished_at_ms DESC, seq DESC LIMIT %(most)s
