-- Store a job that is available and has nothing but arguments; all other columns have their defaults. A third of the
-- columns takes two thirds of the time.
-- In order: seq, id, lane, arrival_ms, enqueued_at_ms, scheduled_at_ms, available_at_ms, args.
INSERT INTO job (seq, id, lane, state, arrival_ms, enqueued_at_ms, scheduled_at_ms, available_at_ms, args)
VALUES
    (?, ?, ?, 1, ?, ?, ?, ?, ?)
