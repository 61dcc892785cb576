-- Set a number. :name which, :value what it becomes.
INSERT INTO counter VALUES (:name, :value) ON CONFLICT (name) DO UPDATE SET value = excluded.value
