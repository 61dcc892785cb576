-- Let a job wait for another.
-- In order: parent, child, marks (see the table).
INSERT INTO edge VALUES (?, ?, ?)
