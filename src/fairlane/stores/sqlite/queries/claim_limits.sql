-- Note the named limits that a running job counts against.
-- :seq its number, :limits their keys as JSON.
UPDATE job SET limits = :limits WHERE seq = :seq
