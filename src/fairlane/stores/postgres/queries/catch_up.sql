-- What was logged after a row, in order, and what has become visible of the inbox since the log's last row: it is copied to
-- the log and comes last. Gives number, kind and body. The first number is :version + 1 unless older rows were pruned.
-- :version the row, :most how many rows of the inbox are copied, about: whole transactions are, in the order of their
-- numbers, and what the log's rows then say was visible ends behind the last of them. What this transaction itself left in
-- the inbox is for the next; a log of another server, from a dump, knows nothing of this one's inbox.
WITH last AS MATERIALIZED (
    SELECT
        id, lease_floor, snap, pg_snapshot_xmax(snap) AS before, ARRAY(SELECT pg_snapshot_xip(snap)) AS running
    FROM fairlane.log ORDER BY id DESC LIMIT 1
),
another AS MATERIALIZED (
    SELECT (
%% part_of_another
    ) AS of_another
    FROM (VALUES (1)) AS one LEFT JOIN last ON true
),
bound AS MATERIALIZED (
    SELECT xid AS upto, (xid::text::numeric + 1)::text::xid8 AS beyond FROM fairlane.inbox
    WHERE xid >= coalesce((SELECT before FROM last), '0'::xid8) AND xid IS DISTINCT FROM pg_current_xact_id_if_assigned()
    ORDER BY xid, id OFFSET %(most)s - 1 LIMIT 1
),
visible AS MATERIALIZED (
    SELECT coalesce((
        SELECT concat_ws(
            ':', least(pg_snapshot_xmin(pg_current_snapshot()), beyond), beyond,
            (SELECT coalesce(string_agg(xid::text, ',' ORDER BY xid), '')
            FROM pg_snapshot_xip(pg_current_snapshot()) AS xid WHERE xid < beyond)
        )::pg_snapshot FROM bound
    ), pg_current_snapshot()) AS snap
),
fresh AS (
    SELECT id, counts, body FROM fairlane.inbox
    WHERE xid >= coalesce((SELECT before FROM last), '0'::xid8) AND xid IS DISTINCT FROM pg_current_xact_id_if_assigned()
        AND xid <= coalesce((SELECT upto FROM bound), '18446744073709551615'::xid8)
    UNION ALL
    SELECT id, counts, body FROM fairlane.inbox WHERE xid = ANY (ARRAY(SELECT unnest(running) FROM last))
),
placed AS (
    SELECT coalesce((SELECT id FROM last), 0) + row_number() OVER (ORDER BY id) AS version, counts, body
    FROM fresh WHERE NOT (SELECT of_another FROM another)
),
logged AS (
    INSERT INTO fairlane.log (id, kind, bytes, body, counts, lease_floor, snap)
    SELECT version, 0, length(body), body, counts, coalesce((SELECT lease_floor FROM last), 0), visible.snap
    FROM placed CROSS JOIN visible
)
SELECT id, kind, body FROM fairlane.log WHERE id > %(version)s
UNION ALL
SELECT version, 0, body FROM placed
ORDER BY id
