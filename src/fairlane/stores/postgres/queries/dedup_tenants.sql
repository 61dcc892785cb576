-- The tenants of the jobs that hold a dedup key: the live ones, and those whose key outlives them.
-- :dedup queue and key. No row: the key is free.
SELECT DISTINCT lane.tenant FROM fairlane.job JOIN fairlane.lane ON lane.id = job.lane
WHERE job.dedup = %(dedup)s AND job.dedup IS NOT NULL AND job.state <= 2
UNION
SELECT lane.tenant FROM fairlane.job JOIN fairlane.lane ON lane.id = job.lane
WHERE job.dedup = %(dedup)s AND job.dedup_ttl_ms IS NOT NULL AND job.state >= 3
