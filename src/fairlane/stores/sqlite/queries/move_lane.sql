-- Move a waiting job to another lane.
-- :seq, :lane.
UPDATE job SET lane = :lane WHERE seq = :seq AND state <= 1
