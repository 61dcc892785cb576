-- Put a job that waits for others in the express lane: it becomes available when they have ended, without its delay.
-- :seq, :number its place there, :now_ms the instant.
UPDATE fairlane.job SET express = %(number)s, scheduled_at_ms = least(scheduled_at_ms, %(now_ms)s) WHERE seq = %(seq)s AND state = 0
