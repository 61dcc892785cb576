-- The tables of a store. Instants end in _at_ms (milliseconds UTC); names of states and phases are numbers, see
-- domain/states.py and domain/jobs.py. Later migrations add order between jobs and schedules as tables of their own
-- (both only make jobs available later, which state 0 already means); named limits are rows of rule and gate.

-- What holds for the whole store: policy, capacities, who made it.
CREATE TABLE setting (
    name TEXT PRIMARY KEY,
    value TEXT NOT NULL
) WITHOUT ROWID;

-- Numbers that only grow.
CREATE TABLE counter (
    name TEXT PRIMARY KEY,
    value INTEGER NOT NULL
) WITHOUT ROWID;
INSERT INTO counter VALUES ('express', 0), ('enqueued_at_ms', 0), ('noticed_at_ms', 0);

-- A lane and how many jobs wait in it. available leaves express jobs out.
CREATE TABLE lane (
    id INTEGER PRIMARY KEY,
    queue TEXT NOT NULL,
    task TEXT NOT NULL,
    tenant TEXT NOT NULL,
    tier INTEGER NOT NULL CHECK (tier BETWEEN 0 AND 4),
    available INTEGER NOT NULL DEFAULT 0 CHECK (available >= 0),
    scheduled INTEGER NOT NULL DEFAULT 0 CHECK (scheduled >= 0),
    UNIQUE (queue, task, tenant, tier)
);
CREATE INDEX lane_waiting ON lane (id) WHERE available > 0 OR scheduled > 0;
CREATE INDEX lane_critical ON lane (id) WHERE tier = 0 AND available > 0;

-- AUTOINCREMENT: a number is never reused, also not after the newest row was deleted.
CREATE TABLE job (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    id BLOB NOT NULL UNIQUE CHECK (length(id) = 16),
    lane INTEGER NOT NULL REFERENCES lane,
    state INTEGER NOT NULL CHECK (state BETWEEN 0 AND 5),
    phase INTEGER NOT NULL DEFAULT 0,
    arrival_ms INTEGER NOT NULL,
    express INTEGER,                    -- its number in the express lane
    timer_ms INTEGER,                   -- scheduled: when due; available: when it expires; running: end of the lease
    fence INTEGER NOT NULL DEFAULT 0,
    failures INTEGER NOT NULL DEFAULT 0,
    crashes INTEGER NOT NULL DEFAULT 0,
    checks INTEGER NOT NULL DEFAULT 0,
    preemptions INTEGER NOT NULL DEFAULT 0,
    rule INTEGER,                       -- what started it last, and what that charged
    expected_us INTEGER,
    divided_by INTEGER,
    worker TEXT,
    ask INTEGER,                        -- the holder is asked to stop: 1 cancel, 2 preempt
    asked_for INTEGER,                  -- the number of the job that it was last asked to give way to
    enqueued_at_ms INTEGER NOT NULL,
    scheduled_at_ms INTEGER NOT NULL,
    available_at_ms INTEGER,
    started_at_ms INTEGER,
    beat_at_ms INTEGER,
    finished_at_ms INTEGER,
    expires_at_ms INTEGER,
    dedup TEXT,                         -- queue and key
    limits TEXT,                        -- the limits a running job counts against, when there are any
    fingerprint TEXT,                   -- which dead jobs are alike
    reason TEXT,
    progress TEXT,
    checkpoint TEXT,
    result TEXT,
    errors TEXT,
    tags TEXT,
    trace TEXT,
    args TEXT NOT NULL
);
CREATE INDEX job_head ON job (lane, arrival_ms, seq) WHERE state = 1 AND express IS NULL;
CREATE INDEX job_express ON job (express) WHERE express IS NOT NULL AND state <= 1;
CREATE INDEX job_timer ON job (timer_ms) WHERE state <= 1 AND timer_ms IS NOT NULL;
CREATE INDEX job_lease ON job (timer_ms) WHERE state = 2;
CREATE INDEX job_ask ON job (worker) WHERE state = 2 AND ask IS NOT NULL;
CREATE UNIQUE INDEX job_dedup ON job (dedup) WHERE dedup IS NOT NULL AND state <= 2;
CREATE INDEX job_ended ON job (state, finished_at_ms) WHERE state >= 3;

-- The policy's own memory: pools, tenants' turns, expected run times, rates. Stored now and then (see log).
CREATE TABLE pool (
    name TEXT PRIMARY KEY,
    now INTEGER NOT NULL,
    since INTEGER NOT NULL,
    activations INTEGER NOT NULL,
    seen INTEGER NOT NULL,
    runs INTEGER NOT NULL,
    total_us INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE turn (
    pool TEXT NOT NULL,
    tenant TEXT NOT NULL,
    virtual INTEGER NOT NULL,
    activation INTEGER NOT NULL,
    last_ms INTEGER NOT NULL,
    able INTEGER NOT NULL,
    seen INTEGER NOT NULL,
    PRIMARY KEY (pool, tenant)
) WITHOUT ROWID;
CREATE TABLE mean (
    queue TEXT NOT NULL,
    task TEXT NOT NULL,
    tenant TEXT NOT NULL,
    runs INTEGER NOT NULL,
    total_us INTEGER NOT NULL,
    PRIMARY KEY (queue, task, tenant)
) WITHOUT ROWID;
CREATE TABLE gate (
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    tat INTEGER NOT NULL,
    held_until_ms INTEGER NOT NULL,
    PRIMARY KEY (kind, name)
) WITHOUT ROWID;
CREATE TABLE asked (
    pool TEXT NOT NULL,
    queue TEXT NOT NULL,                -- '' stands for all queues of the pool
    at_ms INTEGER NOT NULL,
    PRIMARY KEY (pool, queue)
) WITHOUT ROWID;

-- What people set (JSON), and what the code declares of a task.
CREATE TABLE rule (
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    body TEXT NOT NULL,
    guarded INTEGER NOT NULL,           -- whether it bounds how many jobs may wait
    changed_by TEXT NOT NULL,
    changed_at_ms INTEGER NOT NULL,
    PRIMARY KEY (kind, name)
) WITHOUT ROWID;
CREATE INDEX rule_guarded ON rule (kind, name) WHERE guarded = 1;
CREATE TABLE task (
    name TEXT PRIMARY KEY,
    limits TEXT NOT NULL,
    max_attempts INTEGER NOT NULL,
    max_crashes INTEGER NOT NULL,
    preemptible INTEGER NOT NULL        -- whether a run may be asked to give way to urgent work
) WITHOUT ROWID;

CREATE TABLE worker (
    id TEXT PRIMARY KEY,
    pool TEXT NOT NULL,
    queues TEXT,
    tasks TEXT,
    slots INTEGER NOT NULL,
    host TEXT NOT NULL,
    pid INTEGER NOT NULL,
    started_at_ms INTEGER NOT NULL,
    queue_slots TEXT                    -- how many of its slots each of its queues may use
) WITHOUT ROWID;

-- How long jobs may wait: what is set (JSON) for a tier, for a queue or tenant of it, or for a tenant in a queue.
CREATE TABLE objective (
    tier INTEGER NOT NULL CHECK (tier BETWEEN 0 AND 4),
    queue TEXT NOT NULL,                -- '' stands for all
    tenant TEXT NOT NULL,               -- likewise
    body TEXT NOT NULL,
    changed_by TEXT NOT NULL,
    changed_at_ms INTEGER NOT NULL,
    PRIMARY KEY (tier, queue, tenant)
) WITHOUT ROWID;

-- Jobs of a queue and tier wait too long. AUTOINCREMENT: alerts name incidents by number, for ever.
CREATE TABLE incident (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    queue TEXT NOT NULL,
    tier INTEGER NOT NULL,
    job BLOB NOT NULL,                  -- the one that has waited longest; task, tenant and since_ms are its own
    task TEXT NOT NULL,
    tenant TEXT NOT NULL,
    since_ms INTEGER NOT NULL,
    objective_ms INTEGER NOT NULL,
    count INTEGER NOT NULL,
    causes TEXT NOT NULL,
    on_breach TEXT NOT NULL,
    escalated TEXT NOT NULL,
    note TEXT NOT NULL,
    opened_at_ms INTEGER NOT NULL,
    seen_at_ms INTEGER NOT NULL,
    notified_at_ms INTEGER NOT NULL,
    notices INTEGER NOT NULL,
    resolved_at_ms INTEGER
);
CREATE UNIQUE INDEX incident_open ON incident (queue, tier) WHERE resolved_at_ms IS NULL;

-- Who watches over waits: one at a time, until its time is over.
CREATE TABLE monitor (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    holder TEXT NOT NULL,
    until_ms INTEGER NOT NULL,
    since_ms INTEGER NOT NULL,
    sinks TEXT NOT NULL                 -- how its alert sinks do (JSON)
);

-- Who changed what and why.
CREATE TABLE audit (
    id INTEGER PRIMARY KEY,
    at_ms INTEGER NOT NULL,
    by TEXT NOT NULL,
    what TEXT NOT NULL,
    target TEXT NOT NULL,
    reason TEXT NOT NULL
);

-- Everything that moved a decision's state, one row a transaction, for processes that hold that state in memory.
-- kind 0: its writer did not hold the state; 1: it did, and the row says what became of turns, pools, means and gates;
-- 2: it also stored all of those, so the tables are as of this row and older rows are not needed any more.
CREATE TABLE log (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    kind INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    body TEXT NOT NULL
);
CREATE INDEX log_stored ON log (id) WHERE kind = 2;
