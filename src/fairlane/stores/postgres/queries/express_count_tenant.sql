-- How many express jobs of a tenant wait in a phase.
-- :phase its number, :tenant its name.
SELECT count(*) FROM fairlane.job JOIN fairlane.lane ON lane.id = job.lane
WHERE express > 0 AND state <= 1 AND phase = %(phase)s AND lane.tenant = %(tenant)s
