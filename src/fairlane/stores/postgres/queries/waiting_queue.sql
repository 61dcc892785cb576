-- How many jobs of a queue wait, express ones too.
-- :name the queue.
SELECT
    (SELECT coalesce(sum(available + scheduled)::bigint, 0) FROM (
        %% part_lanes
    ) AS lane WHERE queue = %(name)s)
    + (SELECT count(*) FROM fairlane.job JOIN fairlane.lane ON lane.id = job.lane
       WHERE express > 0 AND state <= 1 AND state = 1 AND lane.queue = %(name)s)
