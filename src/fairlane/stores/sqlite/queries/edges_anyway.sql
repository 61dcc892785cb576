-- Let a job run however the others end that it waits for.
-- :child its number. No row changed: it waits for none.
UPDATE edge SET marks = marks | 1 WHERE child = :child
