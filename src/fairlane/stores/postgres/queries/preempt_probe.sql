-- Whether urgent work waits that some running job might give way to: 1 or 0.
SELECT EXISTS (SELECT 1 FROM fairlane.task WHERE preemptible = 1) AND (
    EXISTS (SELECT 1 FROM fairlane.job WHERE express > 0 AND state <= 1 AND state = 1)
    OR EXISTS (SELECT 1 FROM (
        %% part_lanes
    ) AS lane WHERE tier = 0 AND available > 0)
)
