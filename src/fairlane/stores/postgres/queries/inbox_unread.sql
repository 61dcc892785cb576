-- What has become visible of the inbox since the log's last row, in order.
-- :before the first number that its writer knew no transaction of, :running those that ran then.
SELECT body FROM (
    SELECT id, body FROM fairlane.inbox WHERE xid >= %(before)s::xid8
    UNION ALL
    SELECT id, body FROM fairlane.inbox WHERE xid = ANY (%(running)s::xid8[])
) AS fresh ORDER BY id
