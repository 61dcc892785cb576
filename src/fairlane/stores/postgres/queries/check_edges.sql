-- Edges that lead nowhere: to a job that is gone or has ended, or from one that has and whose followers nobody will tell.
SELECT edge.parent, edge.child FROM fairlane.edge
LEFT JOIN fairlane.job AS parent ON parent.seq = edge.parent
LEFT JOIN fairlane.job AS child ON child.seq = edge.child
WHERE child.seq IS NULL OR child.state >= 3 OR (
    (parent.seq IS NULL OR parent.state >= 3)
    AND NOT EXISTS (SELECT 1 FROM fairlane.release WHERE release.parent = edge.parent AND upto >= edge.child)
)
