-- Where a job stands: the number of its lane, its next timer.
-- :id. No row: there is none.
SELECT lane, timer_ms FROM job WHERE id = :id
