-- Part of other queries: whether a filter means a job of a lane. Null stands for any.
-- :states a bit for each state, :queue, :task, :tenant, :tier, :tag, :fingerprint, :dedup_key, :bundle, :error the type of
-- the last error, :enqueued_before_ms, :ended_from_ms and :ended_before_ms instants, :text a pattern.
(%(states)s::integer >> job.state::integer) & 1 = 1
AND (%(queue)s::text IS NULL OR lane.queue = %(queue)s)
AND (%(task)s::text IS NULL OR lane.task = %(task)s OR (job.phase = 1 AND lane.task = %(task)s || ':verify'))
AND (%(tenant)s::text IS NULL OR lane.tenant = %(tenant)s)
AND (%(tier)s::integer IS NULL OR lane.tier = %(tier)s)
AND (%(fingerprint)s::text IS NULL OR job.fingerprint = %(fingerprint)s)
AND (%(dedup_key)s::text IS NULL OR job.dedup = length(lane.queue) || ':' || lane.queue || ':' || %(dedup_key)s)
AND (%(bundle)s::bytea IS NULL OR job.bundle = %(bundle)s)
AND (%(enqueued_before_ms)s::bigint IS NULL OR job.enqueued_at_ms < %(enqueued_before_ms)s)
AND (%(ended_from_ms)s::bigint IS NULL OR job.finished_at_ms >= %(ended_from_ms)s)
AND (%(ended_before_ms)s::bigint IS NULL OR job.finished_at_ms < %(ended_before_ms)s)
AND (%(tag)s::text IS NULL OR jsonb_exists(job.tags::jsonb, %(tag)s))
AND (%(error)s::text IS NULL OR job.errors::jsonb -> -1 ->> 'type' = %(error)s)
AND (
    %(text)s::text IS NULL
    OR lane.task ILIKE %(text)s
    OR lane.tenant ILIKE %(text)s
    OR substr(job.dedup, length(length(lane.queue)::text) + length(lane.queue) + 3) ILIKE %(text)s
    OR EXISTS (SELECT 1 FROM jsonb_array_elements_text(job.tags::jsonb) AS tag WHERE tag ILIKE %(text)s)
    OR job.errors::jsonb -> -1 ->> 'type' ILIKE %(text)s
    OR job.errors::jsonb -> -1 ->> 'message' ILIKE %(text)s
)
