-- Store plain jobs, all in one: they are in the inbox too. Not while a bound on waiting jobs is set, nor where another
-- server has taken over: no row then.
-- In order: the instant, most jobs of a lane in an event, the server's line of history that the numbers of lanes are of
-- (null: they are of this connection's server), then arrays with an item for each job, null where none has such
-- a thing: id, lane, when it is due, args, when it expires, on_failure, bundle, tags, trace, by_wall.
-- One row: the instant that arrivals count from.
WITH look AS MATERIALIZED (
    SELECT value AS clock_ms, %s::bigint AS now_ms, %s::integer AS most FROM fairlane.counter
    WHERE name = 'enqueued_at_ms' AND NOT EXISTS (SELECT 1 FROM fairlane.rule WHERE guarded = 1)
        AND coalesce(
%% part_line
        = %s::text, true)
),
stored AS (
%% part_plain_row
        id, lane, expires_at_ms, coalesce(on_failure, 0), bundle, tags, trace, args, coalesce(by_wall, 0)
    FROM look CROSS JOIN unnest(
        %b::bytea[], %b::integer[], %b::bigint[], %b::text[], %b::bigint[], %b::smallint[], %b::bytea[], %b::text[],
        %b::text[], %b::smallint[]
    ) AS job (id, lane, due_ms, args, expires_at_ms, on_failure, bundle, tags, trace, by_wall)
    RETURNING seq, lane, state, arrival_ms
),
lanes AS (
    SELECT
        lane, min(seq) AS first,
        count(*) FILTER (WHERE state = 1) AS available,
        count(*) FILTER (WHERE state = 0) AS scheduled,
        array_agg(seq ORDER BY seq) FILTER (WHERE state = 1) AS seqs,
        array_agg(arrival_ms ORDER BY seq) FILTER (WHERE state = 1) AS arrivals
    FROM stored
    GROUP BY lane
),
events AS (
    SELECT lane, first, available, scheduled, '["+",' || lane || ',[' || (
        SELECT string_agg('[' || arrival_ms || ',' || seq || ']', ',' ORDER BY seq)
        FROM unnest(arrivals[1:most], seqs[1:most]) AS place (arrival_ms, seq)
    ) || '],' || (available > most)::integer || ']' AS event
    FROM lanes CROSS JOIN look
),
told AS (
    INSERT INTO fairlane.inbox (counts, body)
    SELECT
        array_agg(number ORDER BY lane, which),
        '[' || coalesce(string_agg(event, ',' ORDER BY first) FILTER (WHERE which = 1), '') || ']'
    FROM events CROSS JOIN LATERAL (VALUES (1, lane::bigint), (2, available), (3, scheduled)) AS part (which, number)
    HAVING count(*) > 0
)
SELECT clock_ms FROM look
