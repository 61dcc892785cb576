-- Delete jobs that ended before an instant, the oldest first; not those whose dedup key is still kept, and not those
-- whose followers have yet to be told.
-- :state how they ended, :before_ms the instant, :now_ms now, :most how many at most. Returns their numbers.
DELETE FROM fairlane.job WHERE seq = ANY (ARRAY(
    SELECT seq FROM fairlane.job
    WHERE state >= 3 AND state = %(state)s AND finished_at_ms < %(before_ms)s
        AND (dedup IS NULL OR dedup_ttl_ms IS NULL OR finished_at_ms + dedup_ttl_ms <= %(now_ms)s)
        AND NOT EXISTS (SELECT 1 FROM fairlane.release WHERE parent = job.seq)
    ORDER BY finished_at_ms LIMIT %(most)s
)) RETURNING seq
