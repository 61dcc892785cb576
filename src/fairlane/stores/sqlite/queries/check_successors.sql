-- Jobs that wait for a dedup key and for nobody who holds it.
SELECT seq, hex(id) FROM job
WHERE successor = 1 AND state <= 2 AND NOT EXISTS (SELECT 1 FROM edge WHERE child = seq AND marks & 2)
