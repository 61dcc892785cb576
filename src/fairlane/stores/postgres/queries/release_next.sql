-- The next job that ended and whose followers wait to be told: number, the last of them, how it ended, its id if it is
-- still there. No row: there is none.
SELECT release.parent, release.upto, release.state, job.id
FROM fairlane.release LEFT JOIN fairlane.job ON job.seq = release.parent
ORDER BY release.parent, release.upto LIMIT 1
