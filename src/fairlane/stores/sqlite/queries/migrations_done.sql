-- The migrations that were run.
SELECT number, name, checksum FROM migration ORDER BY number
