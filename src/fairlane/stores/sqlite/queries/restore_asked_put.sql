-- Take over what the file that is replaced has in asked; it is attached as live.
INSERT INTO main.asked SELECT * FROM live.asked
