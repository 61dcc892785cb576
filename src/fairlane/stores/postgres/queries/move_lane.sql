-- Move a waiting job to another lane.
-- :seq, :lane.
UPDATE fairlane.job SET lane = %(lane)s WHERE seq = %(seq)s AND state <= 1
