-- Ask a running job to give way.
-- :seq the job, :asked_for the number of the waiting one.
UPDATE fairlane.job SET ask = 2, asked_for = %(asked_for)s WHERE seq = %(seq)s AND state + 0 = 2 AND ask IS NULL
