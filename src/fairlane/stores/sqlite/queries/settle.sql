-- A claim ends in any other way.
-- :seq and :fence the claim, :state where it leads, :timer_ms the next timer, :available_at_ms when it waits again,
-- :finished_at_ms when it ended, :failures, :crashes, :preemptions and :checked what it adds, :errors all of them as
-- JSON, :lane and :phase where it goes on, :other_lane that of the other phase, :handed 1 when process handed its work
-- over, :reference what the other system calls it (null: as it is).
-- A place in the express lane and a checkpoint end with the phase; checks are counted from the handing over.
UPDATE job SET
    state = :state, timer_ms = :timer_ms, ask = NULL, limits = NULL, worker = iif(:state <= 1, NULL, worker),
    available_at_ms = coalesce(:available_at_ms, available_at_ms), finished_at_ms = :finished_at_ms,
    failures = failures + :failures, crashes = crashes + :crashes, preemptions = preemptions + :preemptions,
    reason = :reason, fingerprint = :fingerprint, errors = coalesce(:errors, errors), result = coalesce(:result, result),
    lane = :lane, other_lane = :other_lane, phase = :phase,
    express = iif(phase = :phase, express, NULL), checkpoint = iif(phase = :phase, checkpoint, NULL),
    checks = iif(:handed, 0, checks + :checked), handed = iif(:handed, failures + crashes + 1, handed),
    reference = coalesce(:reference, reference)
WHERE seq = :seq AND state = 2 AND fence = :fence
