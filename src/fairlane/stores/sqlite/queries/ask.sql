-- Ask the holder of a running job to stop.
-- :seq, :ask 1 cancel, 2 preempt.
UPDATE job SET ask = :ask WHERE seq = :seq AND state = 2
