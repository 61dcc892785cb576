-- Store jobs in a caller's transaction, and leave in the inbox what has come in. A job whose key is held is left out.
-- In order: an object in JSON: the database that is meant, the instant, most jobs of a lane in an event, the channel
-- to ring at the commit (null for none) with what, and the jobs.
-- One row: whether this is that database, and the numbers of the jobs that were stored, as an array in JSON.
WITH batch AS MATERIALIZED (SELECT %s::text::jsonb AS body),
here AS MATERIALIZED (
    SELECT body, (body ->> 'now_ms')::bigint AS now_ms FROM batch
    WHERE body ->> 'database' =
%% this_database
),
given AS (
    SELECT here.now_ms, job.* FROM here CROSS JOIN LATERAL jsonb_to_recordset(body -> 'jobs') AS job (
        seq bigint, id bytea, lane integer, state smallint, arrival_ms bigint, timer_ms bigint, due_ms bigint,
        expires_at_ms bigint, dedup text, dedup_ttl_ms bigint, on_failure smallint, bundle bytea, tags text, trace text,
        args text, by_wall smallint
    )
),
stored AS (
    INSERT INTO fairlane.job (
        seq, id, lane, state, arrival_ms, timer_ms, enqueued_at_ms, scheduled_at_ms, available_at_ms, expires_at_ms,
        dedup, dedup_ttl_ms, on_failure, bundle, tags, trace, args, by_wall
    )
    SELECT
        seq, id, lane, state, arrival_ms, timer_ms, now_ms, due_ms, CASE WHEN state = 1 THEN now_ms END, expires_at_ms,
        dedup, dedup_ttl_ms, on_failure, bundle, tags, trace, args, by_wall
    FROM given
    ORDER BY seq
    ON CONFLICT DO NOTHING
    RETURNING seq, lane, state, arrival_ms
),
placed AS (
    SELECT *, row_number() OVER (PARTITION BY lane, state ORDER BY seq) AS place FROM stored
),
lanes AS (
    SELECT
        lane,
        min(seq) FILTER (WHERE state = 1) AS first,
        count(*) FILTER (WHERE state = 1) AS available,
        count(*) FILTER (WHERE state = 0) AS scheduled,
        (SELECT (body ->> 'most')::integer FROM here) AS most,
        jsonb_agg(jsonb_build_array(arrival_ms, seq) ORDER BY place)
            FILTER (WHERE state = 1 AND place <= (SELECT (body ->> 'most')::integer FROM here)) AS places
    FROM placed
    GROUP BY lane
),
told AS (
    INSERT INTO fairlane.inbox (counts, body)
    SELECT
        (
            SELECT array_agg(number ORDER BY lane, which) FROM lanes
            CROSS JOIN LATERAL (VALUES (1, lane::bigint), (2, available), (3, scheduled)) AS part (which, number)
        ),
        coalesce(
            (
                SELECT jsonb_agg(jsonb_build_array('+', lane, places, (available > most)::integer) ORDER BY first)
                FROM lanes WHERE available > 0
            )::text,
            '[]'
        )
    WHERE EXISTS (SELECT FROM stored)
)
SELECT
    EXISTS (SELECT FROM here),
    (SELECT coalesce(jsonb_agg(seq), '[]')::text FROM stored),
    (SELECT pg_notify(body ->> 'channel', body ->> 'bell') FROM here WHERE body ->> 'channel' IS NOT NULL)
