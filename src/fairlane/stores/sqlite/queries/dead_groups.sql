-- Dead jobs by fingerprint, the largest group first: how many, the newest one, when the first and the last died.
-- :most how many groups at most.
SELECT fingerprint, count(*), max(seq), min(finished_at_ms), max(finished_at_ms)
FROM job INDEXED BY job_dead WHERE state = 4
GROUP BY fingerprint ORDER BY count(*) DESC, fingerprint LIMIT :most
