-- What has happened since we looked: the last row of the log, the first lease to lapse, the first timer; null for none.
-- While followers of a job that ended wait to be told, something is due: then the first timer is 0.
SELECT
    (SELECT max(id) FROM log),
    (SELECT min(timer_ms) FROM job INDEXED BY job_lease WHERE state = 2),
    iif(
        EXISTS (SELECT 1 FROM release), 0,
        (SELECT min(timer_ms) FROM job INDEXED BY job_timer WHERE state <= 1 AND timer_ms IS NOT NULL)
    )
