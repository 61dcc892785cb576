-- When the next schedule is due; null: none ever is.
SELECT min(due_at_ms) FROM schedule INDEXED BY schedule_due WHERE due_at_ms IS NOT NULL
