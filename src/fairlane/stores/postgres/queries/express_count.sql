-- How many express jobs wait in a phase.
-- :phase its number.
SELECT count(*) FROM fairlane.job WHERE express > 0 AND state <= 1 AND phase = %(phase)s
