-- Delete a completed job, as prune_old does.
-- :seq, :now_ms. No row: it is deleted already, or kept.
DELETE FROM job
WHERE seq = :seq AND state = 3
    AND (dedup IS NULL OR dedup_ttl_ms IS NULL OR finished_at_ms + dedup_ttl_ms <= :now_ms)
    AND NOT EXISTS (SELECT 1 FROM release WHERE parent = job.seq)
RETURNING seq
