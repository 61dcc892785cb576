-- A job waits for one job less, and still for others.
-- In order: 1 when it takes the dedup key of that job, its number.
UPDATE job SET behind = behind - 1, successor = iif(?, 0, successor) WHERE seq = ?
