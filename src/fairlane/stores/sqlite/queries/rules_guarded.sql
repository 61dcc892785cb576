-- The queues and tenants that bound how many jobs may wait.
SELECT kind, name FROM rule INDEXED BY rule_guarded WHERE guarded = 1
