-- When the first operation is due; null: none is under way.
SELECT min(due_at_ms) FROM operation INDEXED BY operation_due WHERE state = 0
