-- Watch over waits, or go on watching; whether it may is the caller's to know, inside its transaction.
-- :holder who, :until_ms until when, :now_ms the instant, :sinks how its sinks do, as JSON.
INSERT INTO monitor VALUES (1, :holder, :until_ms, :now_ms, :sinks)
ON CONFLICT (one) DO UPDATE SET
    since_ms = iif(holder = excluded.holder, since_ms, excluded.since_ms),
    holder = excluded.holder, until_ms = excluded.until_ms, sinks = excluded.sinks
