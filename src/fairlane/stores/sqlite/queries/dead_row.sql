-- What a dead job died of.
-- :seq.
SELECT id, errors, reason FROM job WHERE seq = :seq
