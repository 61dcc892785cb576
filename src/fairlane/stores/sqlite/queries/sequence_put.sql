-- Say what the highest number of a table is.
-- :name the table, :seq the number.
INSERT INTO sqlite_sequence (name, seq) VALUES (:name, :seq)
