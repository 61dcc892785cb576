-- A job that another is to wait for. No row: there is none.
-- :id.
SELECT seq, state FROM fairlane.job WHERE id = %(id)s
