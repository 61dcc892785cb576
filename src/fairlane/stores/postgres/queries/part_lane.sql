-- Part of other queries: the lane of a job, looked up job by job, so that the order of jobs stays.
SELECT * FROM fairlane.lane WHERE lane.id = job.lane OFFSET 0
