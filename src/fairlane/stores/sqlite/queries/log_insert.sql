-- Log a transaction; returns the number of the row.
-- In order: kind, length of the events in bytes, the events as JSON.
INSERT INTO log (kind, bytes, body) VALUES (?, ?, ?) RETURNING id
