-- How many jobs are in each state. Waiting ones are counted by lane; the others by an index that holds nothing else,
-- since the table itself holds everything that jobs carry.
WITH lane AS (
    %% part_lanes
),
express AS (SELECT state FROM fairlane.job WHERE express > 0 AND state <= 1 AND state = 1)
SELECT 0 AS state, coalesce(sum(scheduled)::bigint, 0) FROM lane
UNION ALL
SELECT 1, coalesce(sum(available)::bigint, 0) + (SELECT count(*) FROM express)
FROM lane
UNION ALL
SELECT 2, count(*) FROM fairlane.job WHERE state = 2
UNION ALL
SELECT state, count(*) FROM fairlane.job WHERE state >= 3 GROUP BY state
