-- The last row of the log that turns, pools, means and gates are stored as of; null when none are.
SELECT max(id) FROM fairlane.log WHERE kind = 2
