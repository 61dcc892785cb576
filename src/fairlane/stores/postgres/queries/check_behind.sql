-- Live jobs whose count of jobs that they wait for is not that of their edges, or that wait for others and are not
-- scheduled: number, id, count, edges.
SELECT seq, id, behind, edges FROM (
    SELECT seq, encode(id, 'hex') AS id, behind, state, (SELECT count(*) FROM fairlane.edge WHERE child = seq) AS edges
    FROM fairlane.job WHERE state <= 2
) AS live WHERE behind <> edges OR (behind > 0 AND state <> 0)
