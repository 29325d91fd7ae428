-- Runs that ended well. Without them no share of failures can be told: neither whether a node fails more often than its
-- peers, nor up to which size a program works.

-- Runs of the same kind: what is compared with each other.
CREATE TABLE workload (
    id INTEGER PRIMARY KEY,
    cluster TEXT NOT NULL,              -- as job.cluster
    user_name TEXT NOT NULL,            -- '' = unknown
    program TEXT NOT NULL,              -- the job's name, numbers as #
    size INTEGER NOT NULL,              -- nodes, rounded up to a power of two
    UNIQUE (cluster, user_name, program, size)
);

CREATE TABLE good_run (
    id INTEGER PRIMARY KEY,
    cluster TEXT NOT NULL,
    job_id TEXT NOT NULL,               -- the raw id
    start_time DOUBLE PRECISION NOT NULL,
    end_time DOUBLE PRECISION NOT NULL,
    workload INTEGER NOT NULL REFERENCES workload (id),
    n_nodes INTEGER NOT NULL,
    nodes TEXT NOT NULL,                -- folded list
    partition TEXT,
    UNIQUE (cluster, job_id, start_time)
);

-- Good runs counted, so that a question about many nodes need not unfold a million lists.
CREATE TABLE good_day (
    day INTEGER NOT NULL,               -- of end_time, in days since the epoch (UTC)
    workload INTEGER NOT NULL REFERENCES workload (id),
    node TEXT NOT NULL,
    runs INTEGER NOT NULL,
    PRIMARY KEY (day, workload, node)
);

CREATE INDEX good_run_by_workload ON good_run (workload, end_time);
CREATE INDEX good_run_by_time ON good_run (end_time);
