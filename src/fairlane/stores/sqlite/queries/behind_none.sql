-- A job that has ended waits for others no more.
-- :seq its number.
UPDATE job SET behind = 0 WHERE seq = :seq
