-- Store one plain job, all in one: it is in the inbox too. Not while a bound on waiting jobs is set: no row then.
-- In order: the instant, that at which the job is due, id, lane, when it expires, on_failure, bundle, tags, trace, args,
-- by_wall.
-- One row: the instant that arrivals count from.
WITH look AS MATERIALIZED (
    SELECT value AS clock_ms, %s::bigint AS now_ms, %s::bigint AS due_ms FROM fairlane.counter
    WHERE name = 'enqueued_at_ms' AND NOT EXISTS (SELECT 1 FROM fairlane.rule WHERE guarded = 1)
),
stored AS (
    INSERT INTO fairlane.job (
        seq, state, arrival_ms, enqueued_at_ms, scheduled_at_ms, available_at_ms, timer_ms,
        id, lane, expires_at_ms, on_failure, bundle, tags, trace, args, by_wall
    )
    SELECT
        nextval('fairlane.job_seq'), CASE WHEN due_ms > now_ms THEN 0 ELSE 1 END, greatest(due_ms, clock_ms), now_ms, due_ms,
        CASE WHEN due_ms <= now_ms THEN now_ms END, CASE WHEN due_ms > now_ms THEN due_ms ELSE expires_at_ms END,
        id, lane, expires_at_ms, on_failure, bundle, tags, trace, args, by_wall
    FROM look CROSS JOIN (
        VALUES (
            %s::bytea, %s::integer, %s::bigint, %s::smallint, %s::bytea, %s::text, %s::text, %s::text, %s::smallint
        )
    ) AS job (id, lane, expires_at_ms, on_failure, bundle, tags, trace, args, by_wall)
    RETURNING seq, lane, state, arrival_ms
),
told AS (
    INSERT INTO fairlane.inbox (counts, body)
    SELECT
        ARRAY[lane, state, 1 - state],
        CASE WHEN state = 1 THEN '[["+",' || lane || ',[[' || arrival_ms || ',' || seq || ']],0]]' ELSE '[]' END
    FROM stored
)
SELECT clock_ms FROM look
