-- Where a waiting job stands that another is to take the place of. No row: it waits no more.
-- :seq its number.
SELECT lane, state, arrival_ms, express, behind, available_at_ms FROM fairlane.job WHERE seq = %(seq)s AND state <= 1
