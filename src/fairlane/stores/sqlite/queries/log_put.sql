-- Log a row under a number.
-- In order: id, kind, length of the events in bytes, the events as JSON.
INSERT INTO log (id, kind, bytes, body) VALUES (?, ?, ?, ?)
