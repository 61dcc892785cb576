-- When the first operation is due; null: none is under way.
SELECT min(due_at_ms) FROM fairlane.operation WHERE state = 0
