-- Running jobs without what a running job has.
SELECT seq, hex(id) FROM job WHERE state = 2 AND (worker IS NULL OR timer_ms IS NULL OR started_at_ms IS NULL OR fence < 1)
