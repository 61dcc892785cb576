-- Copy to the log what has become visible of the inbox since the log's last row; returns it in order.
-- :version the log's last row, :before the first number that its writer knew no transaction of, :running those that ran
-- then, :floor that of leases. What this transaction itself left there is for the next.
WITH fresh AS (
    SELECT id, counts, body FROM fairlane.inbox
    WHERE xid >= %(before)s::xid8 AND xid IS DISTINCT FROM pg_current_xact_id_if_assigned()
    UNION ALL
    SELECT id, counts, body FROM fairlane.inbox WHERE xid = ANY (%(running)s::xid8[])
),
placed AS (SELECT %(version)s + row_number() OVER (ORDER BY id) AS version, counts, body FROM fresh),
logged AS (
    INSERT INTO fairlane.log (id, kind, bytes, body, counts, lease_floor, snap)
    SELECT version, 0, length(body), body, counts, %(floor)s, pg_current_snapshot() FROM placed
)
SELECT version, body FROM placed ORDER BY version
