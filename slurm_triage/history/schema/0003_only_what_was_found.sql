-- What is ruled out stands in the document of the attempt (attempt.diagnosis) and no longer in rows of its own: it was
-- some thirty of them a job, two fifths of the file, and no question needs them.

CREATE TABLE old_finding AS SELECT * FROM finding WHERE role <> 'not';
CREATE TABLE old_citation AS
SELECT citation.* FROM citation
JOIN old_finding ON old_finding.attempt = citation.attempt AND old_finding.ordinal = citation.finding;
DROP TABLE citation;
DROP TABLE finding;

CREATE TABLE finding (
    attempt INTEGER NOT NULL REFERENCES attempt (id) ON DELETE CASCADE,
    ordinal INTEGER NOT NULL,           -- from 0; 0 is the cause
    role TEXT NOT NULL CHECK (role IN ('cause', 'also')),
    cause TEXT NOT NULL,
    strength TEXT,
    owner TEXT,
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

INSERT INTO finding SELECT attempt, ordinal, role, cause, strength, owner, at FROM old_finding;
INSERT INTO citation SELECT attempt, ordinal, finding, source, node, file, line, at, text FROM old_citation;
DROP TABLE old_citation;
DROP TABLE old_finding;
CREATE INDEX finding_by_cause ON finding (cause, at);
