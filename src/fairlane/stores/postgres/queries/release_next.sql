-- The next job that ended and whose followers wait to be told: number, the last of them, how it ended, its id if it is
-- still there. No row: there is none.
-- No join: where nobody forbids it, PostgreSQL may walk over all jobs up to that one to merge them.
SELECT parent, upto, state, (SELECT id FROM fairlane.job WHERE job.seq = release.parent)
FROM fairlane.release ORDER BY parent, upto LIMIT 1
