-- What was logged after a row, in order, and what has become visible of the inbox since the log's last row: it is copied to
-- the log and comes last. Gives number, kind and body. The first number is :version + 1 unless older rows were pruned.
-- :version the row. What this transaction itself left in the inbox is for the next; a log of another server, from a dump,
-- knows nothing of this one's inbox.
WITH last AS MATERIALIZED (
    SELECT
        id, lease_floor, pg_snapshot_xmax(snap) AS before, ARRAY(SELECT pg_snapshot_xip(snap)) AS running,
        pg_snapshot_xmax(pg_current_snapshot()) < pg_snapshot_xmin(snap) AS of_another
    FROM fairlane.log ORDER BY id DESC LIMIT 1
),
fresh AS (
    SELECT id, counts, body FROM fairlane.inbox
    WHERE xid >= coalesce((SELECT before FROM last), '0'::xid8) AND xid IS DISTINCT FROM pg_current_xact_id_if_assigned()
    UNION ALL
    SELECT id, counts, body FROM fairlane.inbox WHERE xid = ANY (ARRAY(SELECT unnest(running) FROM last))
),
placed AS (
    SELECT coalesce((SELECT id FROM last), 0) + row_number() OVER (ORDER BY id) AS version, counts, body
    FROM fresh WHERE (SELECT of_another FROM last) IS NOT TRUE
),
logged AS (
    INSERT INTO fairlane.log (id, kind, bytes, body, counts, lease_floor, snap)
    SELECT version, 0, length(body), body, counts, coalesce((SELECT lease_floor FROM last), 0), pg_current_snapshot()
    FROM placed
)
SELECT id, kind, body FROM fairlane.log WHERE id > %(version)s
UNION ALL
SELECT version, 0, body FROM placed
ORDER BY id
