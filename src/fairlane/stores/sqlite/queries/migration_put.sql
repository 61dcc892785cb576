-- Record a migration.
-- :number, :name, :checksum, :now_ms.
INSERT INTO migration VALUES (:number, :name, :checksum, :now_ms)
