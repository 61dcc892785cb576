-- How many express jobs of a tenant wait in a phase.
-- :phase its number, :tenant its name.
SELECT count(*) FROM job INDEXED BY job_express CROSS JOIN lane ON lane.id = job.lane
WHERE express IS NOT NULL AND state <= 1 AND phase = :phase AND lane.tenant = :tenant
