-- Two phases, order between jobs, keys that outlive their job, bundles.

ALTER TABLE job ADD COLUMN reference TEXT;             -- what the other system calls the work (JSON), from process
ALTER TABLE job ADD COLUMN other_lane INTEGER REFERENCES lane;  -- the lane of the phase that it is not in
ALTER TABLE job ADD COLUMN handed INTEGER NOT NULL DEFAULT 0;   -- the attempt whose work is checked
ALTER TABLE job ADD COLUMN behind INTEGER NOT NULL DEFAULT 0;   -- how many jobs it waits for
ALTER TABLE job ADD COLUMN followed INTEGER NOT NULL DEFAULT 0; -- whether jobs wait for it
ALTER TABLE job ADD COLUMN on_failure INTEGER NOT NULL DEFAULT 0;  -- when one of those fails: 0 cancel, 1 run
ALTER TABLE job ADD COLUMN successor INTEGER NOT NULL DEFAULT 0;   -- waits behind the running job of its dedup key
ALTER TABLE job ADD COLUMN dedup_ttl_ms INTEGER;       -- how long its key stays taken after its end
ALTER TABLE job ADD COLUMN bundle BLOB;                -- the jobs with one result that it belongs to

ALTER TABLE task ADD COLUMN verify TEXT;               -- how its work is checked (JSON); null: it has one phase

-- Who waits for whom. marks: 1 the child runs however the parent ends, 2 it takes the parent's dedup key then.
CREATE TABLE edge (
    parent INTEGER NOT NULL,
    child INTEGER NOT NULL,
    marks INTEGER NOT NULL,
    PRIMARY KEY (parent, child)
) WITHOUT ROWID;
CREATE INDEX edge_child ON edge (child);

-- Jobs that ended and whose followers have not all been told yet, up to one of them: later ones follow another life of
-- the job. state is how it ended.
CREATE TABLE release (
    parent INTEGER NOT NULL,
    upto INTEGER NOT NULL,
    state INTEGER NOT NULL,
    PRIMARY KEY (parent, upto)
) WITHOUT ROWID;

DROP INDEX job_dedup;
CREATE UNIQUE INDEX job_dedup ON job (dedup, successor) WHERE dedup IS NOT NULL AND state <= 2;
CREATE INDEX job_kept ON job (dedup, finished_at_ms) WHERE dedup_ttl_ms IS NOT NULL AND state >= 3;
CREATE INDEX job_bundle ON job (bundle, seq) WHERE bundle IS NOT NULL;
CREATE INDEX job_dead ON job (fingerprint, finished_at_ms) WHERE state = 4;
