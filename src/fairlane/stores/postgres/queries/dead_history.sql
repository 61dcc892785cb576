-- How many jobs of a group died in each spell of time since an instant; spells without any are left out.
-- :fingerprint, :since_ms the instant, :spell_ms how long a spell is.
SELECT (finished_at_ms - %(since_ms)s) / %(spell_ms)s, count(*) FROM fairlane.job
WHERE state = 4 AND fingerprint = %(fingerprint)s AND finished_at_ms >= %(since_ms)s
GROUP BY 1
