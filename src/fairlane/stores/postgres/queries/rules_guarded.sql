-- The queues and tenants that bound how many jobs may wait.
SELECT kind, name FROM fairlane.rule WHERE guarded = 1
