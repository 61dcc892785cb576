-- Ask the holder of a running job to stop.
-- :seq, :ask 1 cancel, 2 preempt.
UPDATE fairlane.job SET ask = %(ask)s WHERE seq = %(seq)s AND state + 0 = 2
