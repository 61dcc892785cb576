-- Ask a running job to give way.
-- :seq the job, :asked_for the number of the waiting one.
UPDATE job SET ask = 2, asked_for = :asked_for WHERE seq = :seq AND state = 2 AND ask IS NULL
