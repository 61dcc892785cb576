-- Put another job in the place of a waiting one: nothing of its runs is left but its fence and its errors.
-- :seq its number, the others named as the columns are.
UPDATE fairlane.job SET
    lane = %(lane)s, other_lane = NULL, state = %(state)s, arrival_ms = %(arrival_ms)s, express = %(express)s, timer_ms = %(timer_ms)s,
    scheduled_at_ms = %(scheduled_at_ms)s, available_at_ms = %(available_at_ms)s, expires_at_ms = %(expires_at_ms)s,
    dedup_ttl_ms = %(dedup_ttl_ms)s, behind = %(behind)s, on_failure = %(on_failure)s, tags = %(tags)s, trace = %(trace)s, args = %(args)s,
    by_wall = %(by_wall)s, failures = 0, crashes = 0, checks = 0, preemptions = 0, progress = NULL, checkpoint = NULL,
    reference = NULL, result = NULL, reason = NULL, fingerprint = NULL
WHERE seq = %(seq)s AND state <= 1
