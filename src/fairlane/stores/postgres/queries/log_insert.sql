-- Log a transaction that holds the state, up to what it sees of the inbox.
-- In order: number, kind, length of the events in bytes, the events as JSON, counts as an array, the floor of leases.
INSERT INTO fairlane.log (id, kind, bytes, body, counts, lease_floor, snap)
VALUES (%s, %s, %s, %s, %s, %s, pg_current_snapshot())
