-- How many jobs of a group died in each spell of time since an instant; spells without any are left out.
-- :fingerprint, :since_ms the instant, :spell_ms how long a spell is.
SELECT (finished_at_ms - :since_ms) / :spell_ms, count(*) FROM job INDEXED BY job_dead
WHERE state = 4 AND fingerprint = :fingerprint AND finished_at_ms >= :since_ms
GROUP BY 1
