-- Jobs that come again and again; what each column means: domain/schedules.py, ScheduleRecord.
CREATE TABLE schedule (
    name TEXT PRIMARY KEY,
    spec TEXT NOT NULL,                 -- when and what (JSON)
    source TEXT NOT NULL,               -- the module that declares it; '' is by hand
    created_at_ms INTEGER NOT NULL,
    next_at_ms INTEGER,                 -- the next tick; null: there is none
    due_at_ms INTEGER,                  -- when it is looked at next; null: not before it is changed
    pause TEXT,                         -- who paused it, why and until when (JSON)
    last_at_ms INTEGER,                 -- the latest tick that was fired or passed over
    last_job BLOB,                      -- the job that it made last
    runs INTEGER NOT NULL,
    missed INTEGER NOT NULL,
    skipped INTEGER NOT NULL,
    refused INTEGER NOT NULL,
    error TEXT NOT NULL,
    error_at_ms INTEGER,
    gone_at_ms INTEGER,                 -- when the code no longer had it
    changed_at_ms INTEGER NOT NULL,
    changed_by TEXT NOT NULL
) WITHOUT ROWID;
CREATE INDEX schedule_due ON schedule (due_at_ms) WHERE due_at_ms IS NOT NULL;
