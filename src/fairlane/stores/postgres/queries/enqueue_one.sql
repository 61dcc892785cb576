-- Store one plain job, all in one: it is in the inbox too. Not while a bound on waiting jobs is set, nor where another
-- server has taken over: no row then.
-- In order: the instant, that at which the job is due, the server's line of history that the lane's number is of (null: it
-- is of this connection's server), id, lane, when it expires, on_failure, bundle, tags, trace, args,
-- by_wall.
-- One row: the instant that arrivals count from.
WITH look AS MATERIALIZED (
    SELECT value AS clock_ms, %s::bigint AS now_ms, %s::bigint AS due_ms FROM fairlane.counter
    WHERE name = 'enqueued_at_ms' AND NOT EXISTS (SELECT 1 FROM fairlane.rule WHERE guarded = 1)
        AND coalesce(
%% part_line
        = %s::text, true)
),
stored AS (
%% part_plain_row
        id, lane, expires_at_ms, on_failure, bundle, tags, trace, args, by_wall
    FROM look CROSS JOIN (
        VALUES (
            %s::bytea, %s::integer, %s::bigint, %s::smallint, %s::bytea, %s::text, %s::text, %s::text, %s::smallint
        )
    ) AS job (id, lane, expires_at_ms, on_failure, bundle, tags, trace, args, by_wall)
    RETURNING seq, lane, state, arrival_ms
),
%% part_told_one
SELECT clock_ms FROM look
