-- Move a waiting job to another lane of the phase that it is not in.
-- :seq, :lane.
UPDATE fairlane.job SET other_lane = %(lane)s WHERE seq = %(seq)s AND state <= 1
