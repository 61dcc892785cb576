-- Start an operation.
-- The columns in order.
INSERT INTO operation VALUES (
    :id, :body, 0, :total, :more, 0, 0, '[]', -1, :last, :now_ms, :by, :reason, :now_ms, NULL
)
