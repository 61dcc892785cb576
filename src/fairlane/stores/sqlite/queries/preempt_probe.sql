-- Whether urgent work waits that some running job might give way to: 1 or 0.
SELECT EXISTS (SELECT 1 FROM task WHERE preemptible = 1) AND (
    EXISTS (SELECT 1 FROM job INDEXED BY job_express WHERE express IS NOT NULL AND state <= 1 AND state = 1)
    OR EXISTS (SELECT 1 FROM lane INDEXED BY lane_critical WHERE tier = 0 AND available > 0)
)
