-- Part of other queries: leave in the inbox that the job of stored, if there is one, has come in.
told AS (
    INSERT INTO fairlane.inbox (counts, body)
    SELECT
        ARRAY[lane, state, 1 - state],
        CASE WHEN state = 1 THEN '[["+",' || lane || ',[[' || arrival_ms || ',' || seq || ']],0]]' ELSE '[]' END
    FROM stored
)
