-- Set a rule.
-- :kind, :name, :body as JSON, :guarded whether it bounds how many jobs may wait, :by who, :now_ms when.
INSERT INTO rule VALUES (:kind, :name, :body, :guarded, :by, :now_ms)
ON CONFLICT (kind, name) DO UPDATE SET
    body = excluded.body, guarded = excluded.guarded, changed_by = excluded.changed_by, changed_at_ms = excluded.changed_at_ms
