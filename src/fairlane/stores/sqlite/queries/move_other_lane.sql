-- Move a waiting job to another lane of the phase that it is not in.
-- :seq, :lane.
UPDATE job SET other_lane = :lane WHERE seq = :seq AND state <= 1
