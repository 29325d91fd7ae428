"""What the hooks of this host left in its spool (docs/reference/spool.md) about the job. Nothing is changed."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence

from slurm_triage.spool import PLACES, NoSpool, Record, Spool, SpoolError, usual_owner
from slurm_triage.spool_evidence import file_name, names, node_of, start_of

SPOOLS: Sequence[str] = PLACES
"""The spools that are looked at."""


def look(jobs: Container[str]) -> tuple[dict[str, bytes], list[str]]:
    """(evidence files, what could not be looked at) of these jobs, by raw id. Never raises; no spool is no news."""
    records: list[Record] = []
    problems: list[str] = []
    for path in SPOOLS:
        try:
            with Spool(path, usual_owner(path)) as spool:
                found, passed_over = spool.peek(jobs)
        except NoSpool:
            continue
        except SpoolError as error:
            problems.append(f"could not be read: {error}")
            continue
        records += found
        problems += passed_over
    several = len({record.job for record in records}) > 1
    files: dict[str, bytes] = {}
    for record in _of_known_attempts(sorted(records, key=lambda r: (r.mtime, r.name)), problems):
        wanted = file_name(record)
        if several:
            wanted = f"{wanted.removesuffix('.txt')}.{record.job}.txt"
        if record.data not in files.values():
            name = next((free for free in names(wanted) if free not in files), None)
            if name is None:
                problems.append(f"{record.name}: not used: there are too many records of its kind")
            else:
                files[name] = record.data
    return files, problems


def _of_known_attempts(records: Sequence[Record], problems: list[str]) -> Iterator[Record]:
    """All but old tickets that tell of no start (Slurm 22.05): they would be taken for the last attempt's."""
    last = {(r.job, r.kind, node_of(r)): r for r in records if r.kind != "tasks" and start_of(r.env) is None}
    for record in records:
        newest = last.get((record.job, record.kind, node_of(record)), record)
        if record.kind == "tasks" or start_of(record.env) is not None or newest is record:
            yield record
        else:
            problems.append(f"{record.name}: not used: it does not say of which attempt it is")
