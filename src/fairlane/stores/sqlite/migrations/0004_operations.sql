-- One action on many jobs, carried out in portions; dead jobs by what they died of.

CREATE TABLE operation (
    id BLOB PRIMARY KEY,
    body TEXT NOT NULL,                 -- the action, which jobs, and how (JSON)
    state INTEGER NOT NULL,             -- 0 under way, 1 done, 2 cancelled, 3 paused
    total INTEGER NOT NULL,             -- how many jobs the filter meant at its start
    more INTEGER NOT NULL,              -- whether total is only as far as was counted
    done INTEGER NOT NULL,
    refused INTEGER NOT NULL,
    refusals TEXT NOT NULL,             -- the latest of them, with why (JSON)
    place INTEGER NOT NULL,             -- the number of the last job that was looked at
    last INTEGER NOT NULL,              -- the highest number at its start: younger jobs are not meant
    due_at_ms INTEGER NOT NULL,         -- when its rate allows the next job
    by TEXT NOT NULL,
    reason TEXT NOT NULL,
    created_at_ms INTEGER NOT NULL,
    ended_at_ms INTEGER
) WITHOUT ROWID;
CREATE INDEX operation_due ON operation (due_at_ms) WHERE state = 0;

-- Groups are counted from the first index alone, and pages of dead jobs go along one of the two, newest first.
DROP INDEX job_dead;
CREATE INDEX job_dead ON job (fingerprint, seq, state, lane, finished_at_ms) WHERE state = 4;
CREATE INDEX job_dead_seq ON job (seq) WHERE state = 4;
-- With the lane, completed jobs are counted by queue without a look at their rows.
DROP INDEX job_ended;
CREATE INDEX job_ended ON job (state, finished_at_ms, lane) WHERE state >= 3;
-- A caller's own name of a job finds all jobs that ever had it.
CREATE INDEX job_key ON job (dedup, seq) WHERE dedup IS NOT NULL;
