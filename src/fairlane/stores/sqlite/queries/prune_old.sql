-- Delete jobs that ended before an instant, the oldest first; not those whose dedup key is still kept, and not those
-- whose followers have yet to be told.
-- :state how they ended, :before_ms the instant, :now_ms now, :most how many at most. Returns their numbers.
DELETE FROM job WHERE seq IN (
    SELECT seq FROM job INDEXED BY job_ended
    WHERE state >= 3 AND state = :state AND finished_at_ms < :before_ms
        AND (dedup IS NULL OR dedup_ttl_ms IS NULL OR finished_at_ms + dedup_ttl_ms <= :now_ms)
        AND NOT EXISTS (SELECT 1 FROM release WHERE parent = job.seq)
    ORDER BY finished_at_ms LIMIT :most
) RETURNING seq
