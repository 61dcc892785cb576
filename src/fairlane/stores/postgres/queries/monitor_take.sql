-- Watch over waits, or go on watching; whether it may is the caller's to know, inside its transaction.
-- :holder who, :until_ms until when, :now_ms the instant, :sinks how its sinks do, as JSON.
INSERT INTO fairlane.monitor VALUES (1, %(holder)s, %(until_ms)s, %(now_ms)s, %(sinks)s)
ON CONFLICT (one) DO UPDATE SET
    since_ms = CASE WHEN monitor.holder = excluded.holder THEN monitor.since_ms ELSE excluded.since_ms END,
    holder = excluded.holder, until_ms = excluded.until_ms, sinks = excluded.sinks
