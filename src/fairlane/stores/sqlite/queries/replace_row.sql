-- Where a waiting job stands that another is to take the place of. No row: it waits no more.
-- :seq its number.
SELECT lane, state, arrival_ms, express, behind, available_at_ms FROM job WHERE seq = :seq AND state <= 1
