-- Where migrations are recorded.
CREATE TABLE IF NOT EXISTS migration (
    number INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    checksum TEXT NOT NULL,
    run_at_ms INTEGER NOT NULL
)
