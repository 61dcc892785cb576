-- Note the named limits that a running job counts against.
-- :seq its number, :limits their keys as JSON.
UPDATE fairlane.job SET limits = %(limits)s WHERE seq = %(seq)s
