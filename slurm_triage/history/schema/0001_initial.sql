-- The history of diagnoses. Plain SQL that SQLite and PostgreSQL both take; docs/reference/history-schema.md explains
-- every table. Times are seconds since the epoch, NULL = unknown. Sizes are bytes. Yes/no is 1/0, NULL = unknown.

CREATE TABLE schema_version (
    version INTEGER PRIMARY KEY,
    applied_at DOUBLE PRECISION NOT NULL,
    name TEXT NOT NULL
);

-- One queueing of a job. Slurm reuses job ids, and a requeue gives the job a new submit time: both make a new row.
CREATE TABLE job (
    id INTEGER PRIMARY KEY,
    cluster TEXT NOT NULL,              -- '' = unknown
    job_id TEXT NOT NULL,               -- the raw id
    submit_key TEXT NOT NULL,           -- submit time as text, without Z when its zone is unknown; '' = unknown
    submit_time DOUBLE PRECISION,
    shown_id TEXT,                      -- 1001_4, 1111+1
    array_id TEXT,
    array_task TEXT,
    het_id TEXT,
    het_offset TEXT,
    user_name TEXT,
    uid BIGINT,
    account TEXT,
    name TEXT,
    partition TEXT,
    qos TEXT,
    work_dir TEXT,
    req_mem BIGINT,                     -- as requested in all
    time_limit DOUBLE PRECISION,        -- seconds; -1 = UNLIMITED
    UNIQUE (cluster, job_id, submit_key)
);

CREATE TABLE attempt (
    id INTEGER PRIMARY KEY,
    job INTEGER NOT NULL REFERENCES job (id),
    start_key TEXT NOT NULL,            -- start time as text, without Z when its zone is unknown; '' = never started
    start_time DOUBLE PRECISION,
    end_time DOUBLE PRECISION,
    at DOUBLE PRECISION,                -- the end, else the start, else the submission: what time filters look at
    attempt_no INTEGER NOT NULL,        -- from 1, as counted by the evidence
    state TEXT,
    exit_code BIGINT,
    signal INTEGER,
    core_dumped INTEGER,
    raw_status BIGINT,                  -- wait status, where a hook saw it
    shown_by_sacct TEXT,
    cause TEXT NOT NULL,
    owner TEXT NOT NULL,
    strength TEXT NOT NULL,
    summary TEXT NOT NULL,
    revision INTEGER NOT NULL,          -- from 1; grows when cause, owner or strength change
    diagnosed_at DOUBLE PRECISION NOT NULL,
    first_failure_rank INTEGER,
    first_failure_node TEXT,
    elapsed DOUBLE PRECISION,           -- seconds
    n_nodes INTEGER,
    nodes TEXT,                         -- folded list of attempt_node, for display
    diagnosis TEXT NOT NULL,            -- the JSON document of this attempt
    UNIQUE (job, start_key)
);

CREATE TABLE attempt_node (
    attempt INTEGER NOT NULL REFERENCES attempt (id) ON DELETE CASCADE,
    node TEXT NOT NULL,
    at DOUBLE PRECISION,                -- copy of attempt.at
    PRIMARY KEY (attempt, node)
);

CREATE TABLE step (
    attempt INTEGER NOT NULL REFERENCES attempt (id) ON DELETE CASCADE,
    ordinal INTEGER NOT NULL,           -- from 0
    step TEXT NOT NULL,                 -- 0, batch, extern, interactive
    state TEXT,
    exit_code BIGINT,
    signal INTEGER,
    start_time DOUBLE PRECISION,
    end_time DOUBLE PRECISION,
    n_tasks INTEGER,
    max_rss BIGINT,
    PRIMARY KEY (attempt, ordinal)
);

CREATE TABLE task (
    attempt INTEGER NOT NULL REFERENCES attempt (id) ON DELETE CASCADE,
    ordinal INTEGER NOT NULL,           -- from 0
    step TEXT,
    rank INTEGER NOT NULL,
    node TEXT,
    code INTEGER,
    signal INTEGER,
    core_dumped INTEGER,
    at DOUBLE PRECISION,
    PRIMARY KEY (attempt, ordinal)
);

CREATE TABLE finding (
    attempt INTEGER NOT NULL REFERENCES attempt (id) ON DELETE CASCADE,
    ordinal INTEGER NOT NULL,           -- from 0; 0 is the cause
    role TEXT NOT NULL CHECK (role IN ('cause', 'also', 'not')),
    cause TEXT NOT NULL,
    strength TEXT,
    owner TEXT,
    because TEXT,                       -- for 'not': what rules it out
    at DOUBLE PRECISION,                -- copy of attempt.at
    PRIMARY KEY (attempt, ordinal)
);

CREATE TABLE citation (
    attempt INTEGER NOT NULL REFERENCES attempt (id) ON DELETE CASCADE,
    ordinal INTEGER NOT NULL,           -- from 0, over all findings of the attempt
    finding INTEGER NOT NULL,           -- finding.ordinal
    source TEXT,
    node TEXT,
    file TEXT,
    line INTEGER,
    at DOUBLE PRECISION,
    text TEXT,
    PRIMARY KEY (attempt, ordinal),
    FOREIGN KEY (attempt, finding) REFERENCES finding (attempt, ordinal) ON DELETE CASCADE
);

CREATE TABLE missing (
    attempt INTEGER NOT NULL REFERENCES attempt (id) ON DELETE CASCADE,
    ordinal INTEGER NOT NULL,           -- from 0
    fact TEXT NOT NULL,
    would_settle TEXT,
    how TEXT,
    PRIMARY KEY (attempt, ordinal)
);

CREATE INDEX job_by_id ON job (job_id);
CREATE INDEX job_by_array ON job (array_id);
CREATE INDEX job_by_het ON job (het_id);
CREATE INDEX job_by_user ON job (user_name, submit_time);
CREATE INDEX job_by_name ON job (name);
CREATE INDEX attempt_by_time ON attempt (at);
CREATE INDEX attempt_by_cause ON attempt (cause, at);
CREATE INDEX attempt_by_owner ON attempt (owner, at);
CREATE INDEX attempt_node_by_node ON attempt_node (node, at);
CREATE INDEX finding_by_cause ON finding (cause, at);
