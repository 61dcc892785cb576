-- How many jobs of a queue wait, express ones too.
-- :name the queue.
SELECT
    (SELECT coalesce(sum(available + scheduled), 0) FROM lane WHERE queue = :name)
    + (SELECT count(*) FROM job INDEXED BY job_express CROSS JOIN lane ON lane.id = job.lane
       WHERE express IS NOT NULL AND state <= 1 AND state = 1 AND lane.queue = :name)
