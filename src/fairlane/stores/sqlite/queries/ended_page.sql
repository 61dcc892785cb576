-- Jobs of some lanes that ended in one way, the latest end first: state, lane and instant are read from the index alone.
-- :state the state, :queue, :task, :tenant, :tier null for any, :before_ms and :before the last one of the page before,
-- :most how many at most.
SELECT finished_at_ms, seq FROM job INDEXED BY job_ended
WHERE state >= 3 AND state = :state
    AND finished_at_ms <= :before_ms AND (finished_at_ms < :before_ms OR seq < :before)
    AND lane IN (
        SELECT id FROM lane
        WHERE (:queue IS NULL OR queue = :queue)
            AND (:task IS NULL OR task IN (:task, :task || ':verify'))
            AND (:tenant IS NULL OR tenant = :tenant)
            AND (:tier IS NULL OR tier = :tier)
    )
ORDER BY finished_at_ms DESC, seq DESC LIMIT :most
