-- Delete a completed job, as prune_old does.
-- :seq, :now_ms. No row: it is deleted already, or kept.
DELETE FROM fairlane.job
WHERE seq = %(seq)s AND state = 3
    AND (dedup IS NULL OR dedup_ttl_ms IS NULL OR finished_at_ms + dedup_ttl_ms <= %(now_ms)s)
    AND NOT EXISTS (SELECT 1 FROM fairlane.release WHERE parent = job.seq)
RETURNING seq
