-- Record a migration.
-- :number, :name, :checksum, :now_ms.
INSERT INTO fairlane.migration VALUES (%(number)s, %(name)s, %(checksum)s, %(now_ms)s)
