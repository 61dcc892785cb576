-- Store a setting.
-- :name, :value as JSON.
INSERT INTO fairlane.setting VALUES (%(name)s, %(value)s) ON CONFLICT (name) DO UPDATE SET value = excluded.value
