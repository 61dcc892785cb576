-- When the next schedule is due; null: none ever is.
SELECT min(due_at_ms) FROM fairlane.schedule WHERE due_at_ms IS NOT NULL
