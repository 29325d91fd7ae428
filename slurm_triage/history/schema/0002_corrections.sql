-- What people know better than the diagnosis. Rows are only ever added: a correction that is taken back stays, and a row
-- with `undoes` says so. Attempts are named by their keys, not by attempt.id, so that nothing that is recorded about an
-- attempt later, and no loss of its rows, touches what somebody said about it.

CREATE TABLE correction (
    id INTEGER PRIMARY KEY,             -- from 1, in the order in which they were written
    cluster TEXT NOT NULL,              -- as job.cluster, job.job_id, job.submit_key and attempt.start_key then
    job_id TEXT NOT NULL,
    submit_key TEXT NOT NULL,
    start_key TEXT NOT NULL,
    undoes INTEGER UNIQUE REFERENCES correction (id),   -- the correction that this row takes back
    cause TEXT,                         -- what it was; NULL where undoes is not
    owner TEXT,                         -- who has to act; NULL = not said
    why TEXT NOT NULL,                  -- '' = not said, only where undoes is not NULL
    by_user TEXT NOT NULL,
    at DOUBLE PRECISION NOT NULL,
    verdict_cause TEXT NOT NULL,        -- what the diagnosis said at that time
    verdict_owner TEXT NOT NULL,
    verdict_strength TEXT NOT NULL,
    verdict_revision INTEGER NOT NULL,  -- attempt.revision
    CHECK ((undoes IS NULL AND cause IS NOT NULL) OR (undoes IS NOT NULL AND cause IS NULL))
);

CREATE INDEX correction_by_attempt ON correction (job_id, cluster, start_key);
