-- Store one job in a caller's transaction, and leave in the inbox that it has come in: all that is to be known for it but
-- its lane is looked up here. Nothing is stored in another database than is meant, or when its key is held; nor while a
-- bound on waiting jobs is set, unless it was looked into.
-- In order: an object in JSON: the database, whether bounds were looked into, the channel to ring at the commit (null for
-- none) with what, the instant, and the job.
-- One row: whether this is that database, whether no bound is in the way, the instant that arrivals count from, and
-- whether the job was stored.
WITH given AS MATERIALIZED (
    SELECT
        job.*, database =
%% this_database
        AS here, looked OR NOT EXISTS (SELECT 1 FROM fairlane.rule WHERE guarded = 1) AS free,
        (SELECT value FROM fairlane.counter WHERE name = 'enqueued_at_ms') AS clock_ms
    FROM jsonb_to_record(%s::text::jsonb) AS job (
        database text, looked boolean, channel text, bell text, now_ms bigint,
        id bytea, lane integer, state smallint, timer_ms bigint, due_ms bigint, expires_at_ms bigint, dedup text,
        dedup_ttl_ms bigint, on_failure smallint, bundle bytea, tags text, trace text, args text, by_wall smallint
    )
),
stored AS (
    INSERT INTO fairlane.job (
        seq, id, lane, state, arrival_ms, timer_ms, enqueued_at_ms, scheduled_at_ms, available_at_ms, expires_at_ms,
        dedup, dedup_ttl_ms, on_failure, bundle, tags, trace, args, by_wall
    )
    SELECT
        nextval('fairlane.job_seq'), id, lane, state, greatest(due_ms, clock_ms), timer_ms, now_ms, due_ms,
        CASE WHEN state = 1 THEN now_ms END, expires_at_ms, dedup, dedup_ttl_ms, on_failure, bundle, tags, trace, args,
        by_wall
    FROM given WHERE here AND free
    ON CONFLICT DO NOTHING
    RETURNING seq, lane, state, arrival_ms
),
%% part_told_one
SELECT
    here, free, clock_ms, EXISTS (SELECT FROM stored),
    CASE WHEN here AND free AND channel IS NOT NULL THEN pg_notify(channel, bell) END
FROM given
