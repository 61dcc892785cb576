-- The running jobs: lane, number, the limits they count against (JSON, or null).
SELECT lane, seq, limits FROM fairlane.job WHERE state = 2
