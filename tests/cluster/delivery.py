"""Service and agents on the mini cluster: the file that each job's owner has at last, and the row of the history."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tests.cluster.machine import Cluster, ClusterError
from tests.cluster.scenarios import OWNER, Scenario

HISTORY = "/var/lib/slurm-triage/history.sqlite"
PATIENCE = 240.0
"""Seconds after which everything must be written."""
PERHAPS = "?"
"""At the end of the folder of a file that need not be there."""
CALM = 40.0
"""Seconds without a change after which nothing more is to come; the service says how it stands every 30 seconds."""
PLACES = ("/shared", "/squash", "/tmp", "/scratch", "/root")
_MARKER = re.compile(r"==== slurm-triage 1: cluster=mini job=(\S+) submit=\S+ start=(\S+) lines=(\d+) ====")
_VERDICT = re.compile(r"VERDICT .*\((confirmed|likely|possible)\), owner: (\w+)")
_HAPPENED = re.compile(r"^What happened(?: \((\w+)\))?", re.MULTILINE)


@dataclass(frozen=True)
class Found:
    """A diagnosis file as it lies there."""

    path: str
    user: str
    mode: int
    text: str

    @property
    def sections(self) -> list[tuple[str, str]]:
        """(job as the marker has it, text) of the sections, in their order. Raises `ValueError` for a torn file."""
        lines = self.text.split("\n")
        at, found = 0, []
        while at < len(lines) - 1:
            marker = _MARKER.fullmatch(lines[at])
            if marker is None:
                raise ValueError(f"{self.path}: line {at + 1} is no section")
            end = at + 1 + int(marker[3])
            found.append((marker[1], "\n".join(lines[at + 1 : end])))
            at = end
        return found


def settle(cluster: Cluster) -> None:
    """Waits until nothing is under way any more. Raises `ClusterError` after `PATIENCE`."""
    end = time.monotonic() + PATIENCE
    written, since = -1, time.monotonic()
    while time.monotonic() - since < CALM:
        said = json.loads(cluster.tell("ctl", "slurm-triage service status --json || :") or b"{}")
        told, texts = said.get("told", -1), said.get("texts", {})
        lying = []
        for host in (*cluster.nodes, "ctl"):
            spool = "/var/spool/slurm-triage"
            _, out, _ = cluster.ask(
                host, f"ls {spool}/new {spool}/outbox {spool}-ctld/new {spool}-ctld/outbox 2>/dev/null | grep -v :"
            )
            lying += out.decode().split()
        # A text whose job had no node that is left to write it stays.
        if told or said.get("waiting") or lying or texts.get("written") != written:
            written, since = texts.get("written", -1), time.monotonic()
        if time.monotonic() > end:
            raise ClusterError(f"not everything is done: told {told}, texts {texts}, spools {sorted(lying)[:5]}")
        time.sleep(2)


def look(cluster: Cluster) -> dict[str, list[Found]]:
    """The diagnosis files by name, as root sees them on all nodes, and the owner where root may not look."""
    find = (
        f"find {' '.join(PLACES)} -xdev -name '*.diagnosis.txt*' -printf '%u %m %p\\n' 2>/dev/null; "
        "find /shared /squash -name '.*.diagnosis.txt*' -printf '%u %m %p\\n' 2>/dev/null; :"
    )
    found: dict[str, list[Found]] = {}
    for host, user in (("login", "root"), ("login", OWNER), ("c1", "root")):
        for line in cluster.tell(host, find, user=user).decode("utf-8", "replace").splitlines():
            owner, mode, path = line.split(" ", 2)
            name = path.rpartition("/")[2]
            if any(one.path == path for one in found.get(name, ())):
                continue
            text = cluster.tell(host, f"cat '{path}'", user=user).decode("utf-8", "replace")
            found.setdefault(name, []).append(Found(path, owner, int(mode, 8), text))
    return found


def history(cluster: Cluster) -> dict[str, list[tuple[str, str]]]:
    """(cause, strength) of the attempts in the service's history by raw id."""
    said = cluster.tell("ctl", f"sdiag-history list -n 100000 --json --db {HISTORY}")
    found: dict[str, list[tuple[str, str]]] = {}
    for row in json.loads(said):
        found.setdefault(str(row["job_id"]), []).append((row["cause"], row["strength"] or ""))
    return found


# -------------------------------------------------------------------------------------------------- what must be


@dataclass(frozen=True)
class Done:
    """A job that was recorded: the lines of `sacct -D -P`, raw ids, and whether accounting lists it as bad."""

    scenario: Scenario
    ids: Sequence[str]
    psv: Sequence[Mapping[str, str]]
    bad: bool


def judge(
    jobs: Iterable[Done], files: Mapping[str, Sequence[Found]], told: Mapping[str, Sequence[tuple[str, str]]]
) -> list[str]:
    """What is wrong: a file that is missing, too much, in the wrong place, somebody else's, or wrongly sure."""
    wrong = []
    for done in jobs:
        who = f"delivery: job {done.ids[0]}, {done.scenario.name}"
        wrong += [f"{who}: {text}" for text in _of_job(done, files, told)]
    for name, some in files.items():
        if not name.endswith(".diagnosis.txt") or name.startswith("."):
            wrong.append(f"delivery: {some[0].path} was left behind")
        wrong += [f"delivery: {one.path} is there too" for one in some[1:]]
        for one in some:
            if one.user not in (OWNER, "user2") or one.mode & 0o007 or one.mode & 0o600 != 0o600:
                wrong.append(f"delivery: {one.path} has owner {one.user} and mode {one.mode:o}")
    return wrong


def _of_job(
    done: Done, files: Mapping[str, Sequence[Found]], told: Mapping[str, Sequence[tuple[str, str]]]
) -> list[str]:
    expect = done.scenario.expect
    rows_of = [row for job in done.ids for row in told.get(job, ())]
    wrong = [
        f"the history is sure of {cause}" for cause, sure in rows_of if sure == "confirmed" and cause in expect.never
    ]
    if done.bad and not rows_of:
        wrong.append("no row in the history")
    mine = [one for name in _names(done.psv) for one in files.get(f"{name}.diagnosis.txt", ())]
    if not mine:
        return wrong if not expect.file or expect.file.endswith(PERHAPS) else [*wrong, "no file"]
    if not expect.file:
        return [*wrong, f"a file, {mine[0].path}"]
    if expect.files not in (0, len(mine)):
        wrong.append(f"{len(mine)} files, not {expect.files}")
    folder = expect.file.removesuffix(PERHAPS).replace("{name}", done.psv[0]["JobName"])
    for one in mine:
        if one.path.rpartition("/")[0] != folder:
            wrong.append(f"{one.path} does not lie in {folder}")
        if one.user != OWNER:
            wrong.append(f"{one.path} belongs to {one.user}")
    try:
        sections = [section for one in mine for section in one.sections]
    except ValueError as error:
        return [*wrong, str(error)]
    wrong += [f"{one.path} has what acts on a terminal" for one in mine if not one.text.replace("\n", "").isprintable()]
    said = [match[1] or "" for _, text in sections if (match := _HAPPENED.search(text))]
    if not any(cause in (expect.cause, *expect.accept) for cause in said) and expect.cause != "array_mixed":
        wrong.append(f"the file says {said}")
    for _, text in sections:
        verdict = _VERDICT.search(text)
        cause = _HAPPENED.search(text)
        if verdict and cause and verdict[1] == "confirmed" and cause[1] in expect.never:
            wrong.append(f"the file is sure of {cause[1]}")
    return wrong


def _names(psv: Sequence[Mapping[str, str]]) -> list[str]:
    """What the files of a job may be called: by array task, else by raw id; and the one of an array."""
    found: dict[str, None] = {}
    for record in psv:
        shown, raw = record["JobID"], record["JobIDRaw"]
        if "." in raw:
            continue
        found[shown if re.fullmatch(r"\d+_\d+", shown) else raw] = None
        if "_" in shown:
            found[shown.partition("_")[0]] = None
    return list(found)


def examine(cluster: Cluster, jobs: Sequence[Done]) -> list[str]:
    """Waits for the end of everything, then what is wrong."""
    try:
        settle(cluster)
    except ClusterError as error:
        return [f"delivery: {error}", *judge(jobs, look(cluster), history(cluster))]
    return judge(jobs, look(cluster), history(cluster))
