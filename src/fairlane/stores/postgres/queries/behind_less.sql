-- A job waits for one job less, and still for others.
-- In order: 1 when it takes the dedup key of that job, its number.
UPDATE fairlane.job SET behind = behind - 1, successor = CASE WHEN %s <> 0 THEN 0 ELSE successor END WHERE seq = %s
