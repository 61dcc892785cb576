-- The tables of a store, in a schema of their own: "fairlane" stands for the one that the store is opened with. They
-- are those of the SQLite store (see its migrations for what the columns mean) but for these:
-- gate_keeper  what every transaction locks that decides or steers; plain enqueues and ends of jobs do not
-- inbox        what those that hold no state have done, until a transaction behind the gate copies it to the log
-- log.snap     what was visible to the transaction that wrote the row: the inbox has been copied as far as that
-- life         when a worker last gave a sign of life
-- awake        one row until the server crashes: a table that is not logged is empty after a crash, and on a standby
--              that was promoted. Claims may have been lost then, and their fences must not come again

CREATE SEQUENCE fairlane.job_seq;

CREATE TABLE fairlane.gate_keeper (one integer PRIMARY KEY);

CREATE TABLE fairlane.setting (
    name text PRIMARY KEY,
    value text NOT NULL
);

CREATE TABLE fairlane.counter (
    name text PRIMARY KEY,
    value bigint NOT NULL
) WITH (fillfactor = 50);
INSERT INTO fairlane.counter VALUES ('express', 0), ('enqueued_at_ms', 0), ('noticed_at_ms', 0), ('fence', 0);

CREATE UNLOGGED TABLE fairlane.awake (one smallint PRIMARY KEY);

-- available and scheduled are as of the last row of the log of kind 2; what later rows and the inbox say beyond it is
-- added when read: were they written by each transaction, old versions of these rows would slow down all others while a
-- reader keeps them alive.
CREATE TABLE fairlane.lane (
    id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    queue text NOT NULL,
    task text NOT NULL,
    tenant text NOT NULL,
    tier smallint NOT NULL CHECK (tier BETWEEN 0 AND 4),
    available bigint NOT NULL DEFAULT 0,
    scheduled bigint NOT NULL DEFAULT 0,
    UNIQUE (queue, task, tenant, tier)
) WITH (fillfactor = 50);

CREATE TABLE fairlane.job (
    seq bigint PRIMARY KEY DEFAULT nextval('fairlane.job_seq'),
    id bytea NOT NULL CHECK (length(id) = 16),
    lane integer NOT NULL,
    state smallint NOT NULL CHECK (state BETWEEN 0 AND 5),
    phase smallint NOT NULL DEFAULT 0,
    arrival_ms bigint NOT NULL,
    express bigint,
    timer_ms bigint,
    fence bigint NOT NULL DEFAULT 0,
    failures integer NOT NULL DEFAULT 0,
    crashes integer NOT NULL DEFAULT 0,
    checks integer NOT NULL DEFAULT 0,
    preemptions integer NOT NULL DEFAULT 0,
    rule smallint,
    expected_us bigint,
    divided_by integer,
    worker text,
    ask smallint,
    asked_for bigint,
    enqueued_at_ms bigint NOT NULL,
    scheduled_at_ms bigint NOT NULL,
    available_at_ms bigint,
    started_at_ms bigint,
    beat_at_ms bigint,
    finished_at_ms bigint,
    expires_at_ms bigint,
    dedup text,
    limits text,
    fingerprint text,
    reason text,
    progress text,
    checkpoint text,
    result text,
    errors text,
    tags text,
    trace text,
    args text NOT NULL,
    reference text,
    other_lane integer,
    handed integer NOT NULL DEFAULT 0,
    behind integer NOT NULL DEFAULT 0,
    followed smallint NOT NULL DEFAULT 0,
    on_failure smallint NOT NULL DEFAULT 0,
    successor smallint NOT NULL DEFAULT 0,
    dedup_ttl_ms bigint,
    bundle bytea,
    by_wall smallint NOT NULL DEFAULT 0
) WITH (
    -- A fifth of a table that keeps a million ended jobs is 200,000 dead rows: vacuum long before.
    autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000, autovacuum_analyze_scale_factor = 0.02
);
CREATE UNIQUE INDEX job_id ON fairlane.job (id);
CREATE INDEX job_head ON fairlane.job (lane, arrival_ms, seq) WHERE state = 1 AND express IS NULL;
CREATE INDEX job_express ON fairlane.job (express) WHERE express IS NOT NULL AND state <= 1;
CREATE INDEX job_timer ON fairlane.job (timer_ms, seq) WHERE state <= 1 AND timer_ms IS NOT NULL;
CREATE INDEX job_lease ON fairlane.job (timer_ms) WHERE state = 2;
CREATE INDEX job_ask ON fairlane.job (worker) WHERE state = 2 AND ask IS NOT NULL;
CREATE UNIQUE INDEX job_dedup ON fairlane.job (dedup, successor) WHERE dedup IS NOT NULL AND state <= 2;
CREATE INDEX job_kept ON fairlane.job (dedup, finished_at_ms) WHERE dedup_ttl_ms IS NOT NULL AND state >= 3;
CREATE INDEX job_key ON fairlane.job (dedup, seq) WHERE dedup IS NOT NULL;
CREATE INDEX job_ended ON fairlane.job (state, finished_at_ms, lane) WHERE state >= 3;
CREATE INDEX job_bundle ON fairlane.job (bundle, seq) WHERE bundle IS NOT NULL;
CREATE INDEX job_dead ON fairlane.job (fingerprint, seq, state, lane, finished_at_ms) WHERE state = 4;
CREATE INDEX job_dead_seq ON fairlane.job (seq) WHERE state = 4;

CREATE TABLE fairlane.pool (
    name text PRIMARY KEY,
    now bigint NOT NULL,
    since bigint NOT NULL,
    activations bigint NOT NULL,
    seen bigint NOT NULL,
    runs bigint NOT NULL,
    total_us bigint NOT NULL
);
CREATE TABLE fairlane.turn (
    pool text NOT NULL,
    tenant text NOT NULL,
    virtual bigint NOT NULL,
    activation bigint NOT NULL,
    last_ms bigint NOT NULL,
    able smallint NOT NULL,
    seen bigint NOT NULL,
    PRIMARY KEY (pool, tenant)
);
CREATE TABLE fairlane.mean (
    queue text NOT NULL,
    task text NOT NULL,
    tenant text NOT NULL,
    runs bigint NOT NULL,
    total_us bigint NOT NULL,
    PRIMARY KEY (queue, task, tenant)
);
CREATE TABLE fairlane.gate (
    kind text NOT NULL,
    name text NOT NULL,
    tat bigint NOT NULL,
    held_until_ms bigint NOT NULL,
    PRIMARY KEY (kind, name)
);
CREATE TABLE fairlane.asked (
    pool text NOT NULL,
    queue text NOT NULL,
    at_ms bigint NOT NULL,
    PRIMARY KEY (pool, queue)
);

CREATE TABLE fairlane.rule (
    kind text NOT NULL,
    name text NOT NULL,
    body text NOT NULL,
    guarded smallint NOT NULL,
    changed_by text NOT NULL,
    changed_at_ms bigint NOT NULL,
    PRIMARY KEY (kind, name)
);
CREATE INDEX rule_guarded ON fairlane.rule (kind, name) WHERE guarded = 1;
CREATE TABLE fairlane.task (
    name text PRIMARY KEY,
    limits text NOT NULL,
    max_attempts integer NOT NULL,
    max_crashes integer NOT NULL,
    preemptible smallint NOT NULL,
    verify text
);

CREATE TABLE fairlane.worker (
    id text PRIMARY KEY,
    pool text NOT NULL,
    queues text,
    tasks text,
    slots integer NOT NULL,
    host text NOT NULL,
    pid integer NOT NULL,
    started_at_ms bigint NOT NULL,
    queue_slots text
);
CREATE TABLE fairlane.life (
    worker text PRIMARY KEY,
    seen_at timestamptz NOT NULL
) WITH (fillfactor = 50);

CREATE TABLE fairlane.objective (
    tier smallint NOT NULL CHECK (tier BETWEEN 0 AND 4),
    queue text NOT NULL,
    tenant text NOT NULL,
    body text NOT NULL,
    changed_by text NOT NULL,
    changed_at_ms bigint NOT NULL,
    PRIMARY KEY (tier, queue, tenant)
);
CREATE TABLE fairlane.incident (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    queue text NOT NULL,
    tier smallint NOT NULL,
    job bytea NOT NULL,
    task text NOT NULL,
    tenant text NOT NULL,
    since_ms bigint NOT NULL,
    objective_ms bigint NOT NULL,
    count bigint NOT NULL,
    causes text NOT NULL,
    on_breach text NOT NULL,
    escalated text NOT NULL,
    note text NOT NULL,
    opened_at_ms bigint NOT NULL,
    seen_at_ms bigint NOT NULL,
    notified_at_ms bigint NOT NULL,
    notices integer NOT NULL,
    resolved_at_ms bigint
);
CREATE UNIQUE INDEX incident_open ON fairlane.incident (queue, tier) WHERE resolved_at_ms IS NULL;
CREATE TABLE fairlane.monitor (
    one smallint PRIMARY KEY CHECK (one = 1),
    holder text NOT NULL,
    until_ms bigint NOT NULL,
    since_ms bigint NOT NULL,
    sinks text NOT NULL
);

CREATE TABLE fairlane.audit (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at_ms bigint NOT NULL,
    by text NOT NULL,
    what text NOT NULL,
    target text NOT NULL,
    reason text NOT NULL,
    why text NOT NULL DEFAULT ''
);

CREATE TABLE fairlane.inbox (
    xid xid8 NOT NULL DEFAULT pg_current_xact_id(),
    id bigint GENERATED ALWAYS AS IDENTITY,
    counts bigint[] NOT NULL,           -- lane, available, scheduled: by how much they change, one behind the other
    body text NOT NULL
);
CREATE INDEX inbox_order ON fairlane.inbox (xid, id);

CREATE TABLE fairlane.log (
    id bigint PRIMARY KEY,
    kind smallint NOT NULL,
    bytes integer NOT NULL,
    body text NOT NULL,
    counts bigint[] NOT NULL,           -- as in inbox
    snap pg_snapshot NOT NULL,
    lease_floor bigint NOT NULL         -- no lease ends before: where to look for the first, past those that are over
);
CREATE INDEX log_stored ON fairlane.log (id) WHERE kind = 2;

CREATE TABLE fairlane.edge (
    parent bigint NOT NULL,
    child bigint NOT NULL,
    marks smallint NOT NULL,
    PRIMARY KEY (parent, child)
);
CREATE INDEX edge_child ON fairlane.edge (child);
CREATE TABLE fairlane.release (
    parent bigint NOT NULL,
    upto bigint NOT NULL,
    state smallint NOT NULL,
    PRIMARY KEY (parent, upto)
);

CREATE TABLE fairlane.schedule (
    name text PRIMARY KEY,
    spec text NOT NULL,
    source text NOT NULL,
    created_at_ms bigint NOT NULL,
    next_at_ms bigint,
    due_at_ms bigint,
    pause text,
    last_at_ms bigint,
    last_job bytea,
    runs bigint NOT NULL,
    missed bigint NOT NULL,
    skipped bigint NOT NULL,
    refused bigint NOT NULL,
    error text NOT NULL,
    error_at_ms bigint,
    gone_at_ms bigint,
    changed_at_ms bigint NOT NULL,
    changed_by text NOT NULL
);
CREATE INDEX schedule_due ON fairlane.schedule (due_at_ms) WHERE due_at_ms IS NOT NULL;

CREATE TABLE fairlane.operation (
    id bytea PRIMARY KEY,
    body text NOT NULL,
    state smallint NOT NULL,
    total bigint NOT NULL,
    more smallint NOT NULL,
    done bigint NOT NULL,
    refused bigint NOT NULL,
    refusals text NOT NULL,
    place bigint NOT NULL,
    last bigint NOT NULL,
    due_at_ms bigint NOT NULL,
    by text NOT NULL,
    reason text NOT NULL,
    created_at_ms bigint NOT NULL,
    ended_at_ms bigint
);
CREATE INDEX operation_due ON fairlane.operation (due_at_ms) WHERE state = 0;

CREATE TABLE fairlane.token (
    id text PRIMARY KEY,
    name text NOT NULL,
    role text NOT NULL CHECK (role IN ('viewer', 'operator', 'admin')),
    tenant text,
    digest bytea NOT NULL CHECK (length(digest) = 32),
    created_at_ms bigint NOT NULL,
    created_by text NOT NULL,
    expires_at_ms bigint,
    used_at_ms bigint,
    revoked_at_ms bigint
);
CREATE TABLE fairlane.session (
    digest bytea PRIMARY KEY CHECK (length(digest) = 32),
    token text NOT NULL REFERENCES fairlane.token,
    expires_at_ms bigint NOT NULL
);
CREATE INDEX session_expiry ON fairlane.session (expires_at_ms);
CREATE INDEX session_token ON fairlane.session (token);
CREATE TABLE fairlane.request (
    scope text NOT NULL,
    key text NOT NULL,
    fingerprint bytea NOT NULL,
    answer bytea NOT NULL,
    at_ms bigint NOT NULL,
    PRIMARY KEY (scope, key)
);
CREATE INDEX request_age ON fairlane.request (at_ms);
