-- Store a running job's progress or checkpoint.
-- :seq and :fence the claim, :progress and :checkpoint JSON or null (kept). No row changed: the lease was lost.
UPDATE job SET progress = coalesce(:progress, progress), checkpoint = coalesce(:checkpoint, checkpoint)
WHERE seq = :seq AND state = 2 AND fence = :fence
