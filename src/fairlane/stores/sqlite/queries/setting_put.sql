-- Store a setting.
-- :name, :value as JSON.
INSERT INTO setting VALUES (:name, :value) ON CONFLICT (name) DO UPDATE SET value = excluded.value
