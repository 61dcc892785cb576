-- Store a job.
-- In order: seq, id, lane, state, arrival_ms, express, timer_ms, enqueued_at_ms, scheduled_at_ms, available_at_ms,
-- finished_at_ms, expires_at_ms, dedup, dedup_ttl_ms, successor, behind, on_failure, bundle, reason, tags, trace, args,
-- by_wall.
INSERT INTO fairlane.job (
    seq, id, lane, state, arrival_ms, express, timer_ms, enqueued_at_ms, scheduled_at_ms, available_at_ms,
    finished_at_ms, expires_at_ms, dedup, dedup_ttl_ms, successor, behind, on_failure, bundle, reason, tags, trace, args,
    by_wall
) VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)
