-- The migrations that were run.
SELECT number, name, checksum FROM fairlane.migration ORDER BY number
