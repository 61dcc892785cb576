-- What became of a handler's commit with which its connection ended: whether its backend is still at it, and whether the
-- claim has ended in success, which nobody else could have brought about (null: the job is gone).
-- In order: the backend, the fence, seq.
SELECT
    EXISTS (SELECT 1 FROM pg_stat_activity WHERE pid = %s),
    (SELECT state = 3 AND fence = %s FROM fairlane.job WHERE seq = %s)
