-- The next timer of a waiting job; null when there is none. While followers of a job that ended wait to be told, it is 0.
SELECT iif(
    EXISTS (SELECT 1 FROM release), 0,
    (SELECT min(timer_ms) FROM job INDEXED BY job_timer WHERE state <= 1 AND timer_ms IS NOT NULL)
)
