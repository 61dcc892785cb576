-- The next timer of a waiting job; null when there is none. While followers of a job that ended wait to be told, it is 0.
SELECT CASE WHEN EXISTS (SELECT 1 FROM fairlane.release) THEN 0 ELSE (SELECT min(timer_ms) FROM fairlane.job WHERE state <= 1 AND timer_ms IS NOT NULL) END
