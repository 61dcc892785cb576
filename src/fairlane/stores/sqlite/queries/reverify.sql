-- A job that died in its verify phase is checked again, its checks and crashes counted from zero; its attempts and its
-- history stay.
-- :seq, :now_ms the instant, :express its number in the express lane or null.
UPDATE job SET
    state = 1, express = :express, crashes = 0, checks = 0, worker = NULL, reason = NULL, fingerprint = NULL,
    finished_at_ms = NULL, available_at_ms = :now_ms, timer_ms = NULL
WHERE seq = :seq AND state = 4 AND phase = 1
