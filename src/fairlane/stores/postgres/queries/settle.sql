-- A claim ends in any other way.
-- :seq and :fence the claim, :state where it leads, :timer_ms the next timer, :available_at_ms when it waits again,
-- :finished_at_ms when it ended, :failures, :crashes, :preemptions and :checked what it adds, :errors all of them as
-- JSON, :lane and :phase where it goes on, :other_lane that of the other phase, :handed 1 when process handed its work
-- over, :reference what the other system calls it (null: as it is).
-- A place in the express lane and a checkpoint end with the phase; checks are counted from the handing over.
UPDATE fairlane.job SET
    state = %(state)s::smallint, timer_ms = %(timer_ms)s, ask = NULL, limits = NULL, worker = CASE WHEN %(state)s::smallint <= 1 THEN NULL ELSE worker END,
    available_at_ms = coalesce(%(available_at_ms)s, available_at_ms), finished_at_ms = %(finished_at_ms)s,
    failures = failures + %(failures)s, crashes = crashes + %(crashes)s, preemptions = preemptions + %(preemptions)s,
    reason = %(reason)s, fingerprint = %(fingerprint)s, errors = coalesce(%(errors)s, errors), result = coalesce(%(result)s, result),
    lane = %(lane)s, other_lane = %(other_lane)s, phase = %(phase)s::smallint,
    express = CASE WHEN phase = %(phase)s::smallint THEN express ELSE NULL END, checkpoint = CASE WHEN phase = %(phase)s::smallint THEN checkpoint ELSE NULL END,
    checks = CASE WHEN %(handed)s = 1 THEN 0 ELSE checks + %(checked)s END, handed = CASE WHEN %(handed)s = 1 THEN failures + crashes + 1 ELSE handed END,
    reference = coalesce(%(reference)s, reference)
WHERE seq = %(seq)s AND state + 0 = 2 AND fence = %(fence)s
