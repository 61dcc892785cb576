-- Jobs that wait for a dedup key and for nobody who holds it.
SELECT seq, encode(id, 'hex') FROM fairlane.job
WHERE successor = 1 AND state <= 2 AND NOT EXISTS (SELECT 1 FROM fairlane.edge WHERE child = seq AND (marks & 2) <> 0)
