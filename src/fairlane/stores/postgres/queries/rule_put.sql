-- Set a rule.
-- :kind, :name, :body as JSON, :guarded whether it bounds how many jobs may wait, :by who, :now_ms when.
INSERT INTO fairlane.rule VALUES (%(kind)s, %(name)s, %(body)s, %(guarded)s, %(by)s, %(now_ms)s)
ON CONFLICT (kind, name) DO UPDATE SET
    body = excluded.body, guarded = excluded.guarded, changed_by = excluded.changed_by, changed_at_ms = excluded.changed_at_ms
