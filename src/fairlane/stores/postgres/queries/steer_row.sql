-- What a change of a job depends on. No row: there is no such job.
-- :id.
SELECT seq, state, lane, arrival_ms, express, phase, dedup, other_lane, behind FROM fairlane.job WHERE id = %(id)s
