-- Start an operation.
-- The columns in order.
INSERT INTO fairlane.operation VALUES (
    %(id)s, %(body)s, 0, %(total)s, %(more)s, 0, 0, '[]', -1, %(last)s, %(now_ms)s, %(by)s, %(reason)s, %(now_ms)s, NULL
)
