-- Raise every fence above all that were ever given.
-- :fence what they are now.
UPDATE job SET fence = :fence
