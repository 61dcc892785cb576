-- Part of other queries: numbers of jobs among which a filter's are, by the shortest way there.
-- :path 0 all jobs, 1 dead ones, 2 those of a fingerprint, 3 of a dedup key in any queue, 4 of a bundle, 5 by their ids,
-- 6 those that run;
-- :above and :below bound the numbers, :fingerprint, :dedup_key, :bundle, :ids the ids one behind the other.
SELECT seq FROM job WHERE :path = 0 AND seq > :above AND seq < :below
UNION ALL
SELECT seq FROM job INDEXED BY job_dead_seq WHERE :path = 1 AND state = 4 AND seq > :above AND seq < :below
UNION ALL
SELECT seq FROM job INDEXED BY job_dead
WHERE :path = 2 AND state = 4 AND fingerprint = :fingerprint AND seq > :above AND seq < :below
UNION ALL
SELECT seq FROM job INDEXED BY job_key
WHERE :path = 3 AND seq > :above AND seq < :below AND dedup IN (
    SELECT length(queue) || ':' || queue || ':' || :dedup_key FROM (SELECT DISTINCT queue FROM lane)
)
UNION ALL
SELECT seq FROM job INDEXED BY job_bundle
WHERE :path = 4 AND bundle = :bundle AND seq > :above AND seq < :below
UNION ALL
SELECT seq FROM job
WHERE :path = 5 AND seq > :above AND seq < :below AND id IN (
    WITH RECURSIVE place(at) AS (SELECT 1 UNION ALL SELECT at + 16 FROM place WHERE at + 16 < length(:ids))
    SELECT substr(:ids, at, 16) FROM place
)
UNION ALL
SELECT seq FROM job INDEXED BY job_lease WHERE :path = 6 AND state = 2 AND seq > :above AND seq < :below
