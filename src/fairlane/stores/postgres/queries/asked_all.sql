-- When claims last asked for queues that no live worker serves.
SELECT pool, queue, at_ms FROM fairlane.asked
