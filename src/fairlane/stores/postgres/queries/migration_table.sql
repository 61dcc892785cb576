-- Where migrations are recorded.
CREATE TABLE IF NOT EXISTS fairlane.migration (
    number integer PRIMARY KEY,
    name text NOT NULL,
    checksum text NOT NULL,
    run_at_ms bigint NOT NULL
)
