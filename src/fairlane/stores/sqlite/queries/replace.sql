-- Put another job in the place of a waiting one: nothing of its runs is left but its fence and its errors.
-- :seq its number, the others named as the columns are.
UPDATE job SET
    lane = :lane, other_lane = NULL, state = :state, arrival_ms = :arrival_ms, express = :express, timer_ms = :timer_ms,
    scheduled_at_ms = :scheduled_at_ms, available_at_ms = :available_at_ms, expires_at_ms = :expires_at_ms,
    dedup_ttl_ms = :dedup_ttl_ms, behind = :behind, on_failure = :on_failure, tags = :tags, trace = :trace, args = :args,
    by_wall = :by_wall, failures = 0, crashes = 0, checks = 0, preemptions = 0, progress = NULL, checkpoint = NULL,
    reference = NULL, result = NULL, reason = NULL, fingerprint = NULL
WHERE seq = :seq AND state <= 1
