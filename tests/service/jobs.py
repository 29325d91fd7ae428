"""Recorded jobs as an asker would answer about them, without any Slurm."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timezone

from slurm_triage.history.good_runs import GoodRun
from slurm_triage.service.ask import Asker, AskError, Ended, JobName
from tests.corpus.load import cases

CORPUS = "recorded-witnesses"
VERSION = "24.11.5"


def state_last(table: bytes) -> bytes:
    """The table with the columns in the order in which the service asks for them."""
    rows = [line.split(b"|") for line in table.splitlines()]
    at = rows[0].index(b"State")
    return b"".join(b"|".join([*row[:at], *row[at + 1 :], row[at]]) + b"\n" for row in rows)


def recorded() -> dict[str, dict[str, bytes]]:
    """By raw id, the accounting of the recorded jobs of 24.11 that have one raw id."""
    found = {}
    for name, files, label in cases(CORPUS):
        if "slurm-24.11/" in name and len(label["job_ids"]) == 1:
            table = state_last(files["sacct.psv"])
            found[str(label["job_ids"][0])] = {"sacct.psv": table, "sacct.json": files["sacct.json"]}
    return found


def cause_of() -> dict[str, str]:
    """By raw id, the label of the same jobs."""
    return {
        str(label["job_ids"][0]): label["cause"]
        for name, _, label in cases(CORPUS)
        if "slurm-24.11/" in name and len(label["job_ids"]) == 1
    }


def end_of(files: Mapping[str, bytes]) -> float:
    """Epoch of the last end in a table of accounting."""
    lines = [line.split("|") for line in files["sacct.psv"].decode().splitlines()]
    at = lines[0].index("End")
    stamps = [words[at] for words in lines[1:] if len(words) > at and words[at].startswith("2")]
    return max(datetime.fromisoformat(s).replace(tzinfo=timezone.utc).timestamp() for s in stamps)


class FakeAsker(Asker):
    """Answers from memory. `down` makes it fail; `asked` are the ids that accounting was asked about."""

    def __init__(self, jobs: Mapping[str, Mapping[str, bytes]]) -> None:
        super().__init__(1.0)
        self.jobs = {job: dict(files) for job, files in jobs.items()}
        self.down = ""
        self.asked: list[Sequence[JobName]] = []
        self.hidden: set[str] = set()
        self.calls = Counter()
        self.good: list[GoodRun] = []

    @property
    def version(self) -> str | None:
        """The version of the recording."""
        return VERSION

    def ended(self, since: float, until: float) -> Ended:
        """The jobs of that time; all of them may have ended badly."""
        if self.down == "ended":
            raise AskError("sacct: slurmdbd does not answer")
        good = [run for run in self.good if since <= run.end <= until]
        return Ended([JobName(job, job) for job, files in self.jobs.items() if since <= end_of(files) <= until], good)

    def evidence(self, jobs: Sequence[JobName]) -> dict[str, dict[str, bytes]]:
        """What is recorded of them."""
        if self.down == "evidence":
            raise AskError("sacct: slurmdbd does not answer")
        self.asked.append(jobs)
        shown = [job.raw for job in jobs if job.raw in self.jobs and job.raw not in self.hidden]
        return {job: dict(self.jobs[job]) for job in shown}

    def controller(self, jobs: Iterable[JobName]) -> dict[str, bytes]:
        """slurmctld has forgotten all."""
        return {}

    def settings(self) -> Mapping[str, bytes]:
        """As on the mini cluster."""
        return {
            "scontrol-config.txt": b"Configuration data as of 2026-11-30T20:00:00\nClusterName             = mini\nKillWait                = 4 sec\n"
        }


def joined(jobs: Mapping[str, Mapping[str, bytes]], separator: str = "|") -> bytes:
    """Several tables as one call of sacct would print them. The recorded names have no separator in them."""
    header = next(iter(jobs.values()))["sacct.psv"].split(b"\n", 1)[0]
    bodies = [files["sacct.psv"].split(b"\n", 1)[1] for files in jobs.values()]
    return (header + b"\n" + b"".join(bodies)).replace(b"|", separator.encode())
