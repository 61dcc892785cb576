-- How many jobs of a tenant wait, express ones too.
-- :name the tenant.
SELECT
    (SELECT coalesce(sum(available + scheduled), 0) FROM lane WHERE tenant = :name)
    + (SELECT count(*) FROM job INDEXED BY job_express CROSS JOIN lane ON lane.id = job.lane
       WHERE express IS NOT NULL AND state <= 1 AND state = 1 AND lane.tenant = :name)
