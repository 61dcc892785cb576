-- Set a wait objective.
-- :tier, :queue and :tenant ('' stands for all), :body as JSON, :by who, :now_ms when.
INSERT INTO fairlane.objective VALUES (%(tier)s, %(queue)s, %(tenant)s, %(body)s, %(by)s, %(now_ms)s)
ON CONFLICT (tier, queue, tenant) DO UPDATE SET
    body = excluded.body, changed_by = excluded.changed_by, changed_at_ms = excluded.changed_at_ms
