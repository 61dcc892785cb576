-- What a dead job died of.
-- :seq.
SELECT id, errors, reason FROM fairlane.job WHERE seq = %(seq)s
