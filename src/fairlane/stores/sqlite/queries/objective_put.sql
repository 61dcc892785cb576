-- Set a wait objective.
-- :tier, :queue and :tenant ('' stands for all), :body as JSON, :by who, :now_ms when.
INSERT INTO objective VALUES (:tier, :queue, :tenant, :body, :by, :now_ms)
ON CONFLICT (tier, queue, tenant) DO UPDATE SET
    body = excluded.body, changed_by = excluded.changed_by, changed_at_ms = excluded.changed_at_ms
