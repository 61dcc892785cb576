-- Live jobs whose count of jobs that they wait for is not that of their edges, or that wait for others and are not
-- scheduled: number, id, count, edges.
SELECT seq, hex(id), behind, (SELECT count(*) FROM edge WHERE child = seq) AS edges
FROM job WHERE state <= 2 AND (behind <> edges OR (behind > 0 AND state <> 0))
