-- Part of other queries: numbers of jobs among which a filter's are, by the shortest way there, each in order,
-- the oldest first.
-- :path 0 all jobs, 1 dead ones, 2 those of a fingerprint, 3 of a dedup key in any queue, 4 of a bundle, 5 by their ids,
-- 6 those that run;
-- :above and :below bound the numbers, :scan how many at most,
-- :fingerprint, :dedup_key, :bundle, :ids the ids one behind the other.
-- OFFSET 0 keeps PostgreSQL from walking over all jobs in the order of their numbers, and looking at each.
(SELECT seq FROM fairlane.job WHERE %(path)s::integer = 0 AND seq > %(above)s AND seq < %(below)s
    ORDER BY seq LIMIT %(scan)s)
UNION ALL
(SELECT seq FROM fairlane.job WHERE %(path)s::integer = 1 AND state = 4 AND seq > %(above)s AND seq < %(below)s
    ORDER BY seq LIMIT %(scan)s)
UNION ALL
(SELECT seq FROM fairlane.job
WHERE %(path)s::integer = 2 AND state = 4 AND fingerprint = %(fingerprint)s::text AND seq > %(above)s AND seq < %(below)s
    ORDER BY seq LIMIT %(scan)s)
UNION ALL
(SELECT seq FROM (SELECT DISTINCT queue FROM fairlane.lane) AS named CROSS JOIN LATERAL (
    SELECT seq FROM fairlane.job
    WHERE dedup = length(named.queue) || ':' || named.queue || ':' || %(dedup_key)s::text
        AND seq > %(above)s AND seq < %(below)s OFFSET 0
) AS job WHERE %(path)s::integer = 3
    ORDER BY seq LIMIT %(scan)s)
UNION ALL
(SELECT seq FROM fairlane.job
WHERE %(path)s::integer = 4 AND bundle = %(bundle)s::bytea AND seq > %(above)s AND seq < %(below)s
    ORDER BY seq LIMIT %(scan)s)
UNION ALL
(SELECT seq FROM (
    SELECT DISTINCT substr(%(ids)s::bytea, at, 16) AS id
    FROM generate_series(1, coalesce(length(%(ids)s::bytea), 0), 16) AS at
) AS named CROSS JOIN LATERAL (
    SELECT seq FROM fairlane.job WHERE job.id = named.id AND seq > %(above)s AND seq < %(below)s OFFSET 0
) AS job WHERE %(path)s::integer = 5
    ORDER BY seq LIMIT %(scan)s)
UNION ALL
(SELECT seq FROM (SELECT seq FROM fairlane.job WHERE state = 2 OFFSET 0) AS job
WHERE %(path)s::integer = 6 AND seq > %(above)s AND seq < %(below)s
    ORDER BY seq LIMIT %(scan)s)
