-- Part of other queries: whether a filter means a job of a lane. Null stands for any.
-- :states a bit for each state, :queue, :task, :tenant, :tier, :tag, :fingerprint, :dedup_key, :bundle, :error the type of
-- the last error, :enqueued_before_ms, :ended_from_ms and :ended_before_ms instants, :text a pattern.
(:states >> job.state) & 1
AND (:queue IS NULL OR lane.queue = :queue)
AND (:task IS NULL OR lane.task = :task OR (job.phase = 1 AND lane.task = :task || ':verify'))
AND (:tenant IS NULL OR lane.tenant = :tenant)
AND (:tier IS NULL OR lane.tier = :tier)
AND (:fingerprint IS NULL OR job.fingerprint = :fingerprint)
AND (:dedup_key IS NULL OR job.dedup = length(lane.queue) || ':' || lane.queue || ':' || :dedup_key)
AND (:bundle IS NULL OR job.bundle = :bundle)
AND (:enqueued_before_ms IS NULL OR job.enqueued_at_ms < :enqueued_before_ms)
AND (:ended_from_ms IS NULL OR job.finished_at_ms >= :ended_from_ms)
AND (:ended_before_ms IS NULL OR job.finished_at_ms < :ended_before_ms)
AND (:tag IS NULL OR EXISTS (SELECT 1 FROM json_each(job.tags) WHERE json_each.value = :tag))
AND (:error IS NULL OR json_extract(job.errors, '$[#-1].type') = :error)
AND (
    :text IS NULL
    OR lane.task LIKE :text ESCAPE '\'
    OR lane.tenant LIKE :text ESCAPE '\'
    OR substr(job.dedup, length(length(lane.queue)) + length(lane.queue) + 3) LIKE :text ESCAPE '\'
    OR EXISTS (SELECT 1 FROM json_each(job.tags) WHERE json_each.value LIKE :text ESCAPE '\')
    OR json_extract(job.errors, '$[#-1].type') LIKE :text ESCAPE '\'
    OR json_extract(job.errors, '$[#-1].message') LIKE :text ESCAPE '\'
)
