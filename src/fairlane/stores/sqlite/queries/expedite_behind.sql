-- Put a job that waits for others in the express lane: it becomes available when they have ended, without its delay.
-- :seq, :number its place there, :now_ms the instant.
UPDATE job SET express = :number, scheduled_at_ms = min(scheduled_at_ms, :now_ms) WHERE seq = :seq AND state = 0
