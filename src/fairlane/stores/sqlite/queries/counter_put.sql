-- Set a counter.
-- :name the counter, :value its value.
INSERT INTO counter VALUES (:name, :value) ON CONFLICT (name) DO UPDATE SET value = excluded.value
