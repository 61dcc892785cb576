-- Store a running job's progress or checkpoint.
-- :seq and :fence the claim, :progress and :checkpoint JSON or null (kept). No row changed: the lease was lost.
UPDATE fairlane.job SET progress = coalesce(%(progress)s, progress), checkpoint = coalesce(%(checkpoint)s, checkpoint)
WHERE seq = %(seq)s AND state + 0 = 2 AND fence = %(fence)s
