"""What a node's own records say of one attempt of a job: who ran it, as whom, where, and where it wrote.

The records are tickets and task records of docs/reference/spool.md, in a folder of root: what they say of user and
group is Slurm's word. Names and paths in them are a user's text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from slurm_triage.node.job import Job
from slurm_triage.nodeset import expand
from slurm_triage.spool import Record
from slurm_triage.spool_evidence import Attempt, node_of

NO_ID = 0xFFFFFFFF
"""The number that is no uid and no gid: to setresuid(2) it means `leave it as it is`."""

_NODE_TICKETS = ("spank", "epilog")
_TICKETS = (*_NODE_TICKETS, "epilogslurmctld")  # in the order in which they are believed
_USER = re.compile(r"[^\s:/]{1,256}")
_ARRAY = re.compile(r"([0-9]{1,10})_([0-9]{1,10})")


@dataclass(frozen=True)
class NoJob:
    """The records do not say for sure whose job it was; `why` is a sentence."""

    why: str


class _Unsure(Exception):
    pass


def job_of(attempt: Attempt) -> Job | NoJob:
    """The job that the records of one attempt on this node tell of.

    `NoJob` where they name no user or group, or do not agree on one. What else they do not say is empty. A node name is
    missing where there is only the controller's ticket; an array that no record names is none, or is not known: the
    second only where `name` is empty, too. Groups are known only if all of them were written down.
    """
    try:
        return _job(attempt)
    except _Unsure as error:
        return NoJob(str(error))


def _job(attempt: Attempt) -> Job:
    records = attempt.records
    job = _one("job id", (record.job for record in records))
    tickets = sorted((r for r in records if r.kind in _TICKETS), key=lambda r: _TICKETS.index(r.kind))
    told = _merged(tickets)
    steps = [step for record in records if record.kind == "tasks" for step in _steps(record.data)]
    if any(step["job"] != job for step in steps):
        raise _Unsure("the task records are of another job")
    uids = [str(r.uid) for r in records if r.uid is not None] + [s["uid"] for s in steps if "uid" in s]
    gids = [_variables(t)["SLURM_JOB_GID"] for t in tickets if "SLURM_JOB_GID" in _variables(t)]
    gids += [step["gid"] for step in steps if "gid" in step]
    nodes = told.get("SLURM_JOB_NODELIST") or told.get("SLURM_NODELIST", "")
    node = _node(tickets, records)
    user = told.get("SLURM_JOB_USER", "")
    return Job(
        job,
        node,
        uid=_id(_one("user id", uids)),
        gid=_id(_one("group id", gids)),
        start=attempt.start if attempt.start is not None else _epoch(told.get("SLURM_JOB_START_TIME", "")),
        end=_epoch(told.get("SLURM_JOB_END_TIME", "")),
        groups=_groups(steps),
        user=user if _USER.fullmatch(user) else "",
        name=told.get("SLURM_JOB_NAME") or _name(steps),
        array=_array(told, steps),
        work_dir=told.get("SLURM_JOB_WORK_DIR", ""),
        stdout=told.get("SLURM_JOB_STDOUT", ""),
        stderr=told.get("SLURM_JOB_STDERR", ""),
        nodes=nodes,
        batch_host=bool(node) and ((expand(nodes) or ("",))[0] == node or any(s["step"] == "batch" for s in steps)),
        cgroup=next((step["cgroup"] for step in steps if "cgroup" in step), ""),
    )


def _one(what: str, values: Iterable[str]) -> str:
    """The value that all of them have. Raises `_Unsure`."""
    found = sorted(set(values))
    if not found:
        raise _Unsure(f"no record names the job's {what}")
    if len(found) > 1:
        raise _Unsure(f"the records do not agree on the job's {what}: {', '.join(found[:4])}")
    return found[0]


def _id(text: str) -> int:
    """A uid or gid. Raises `_Unsure` for what is none."""
    if not re.fullmatch(r"[0-9]{1,10}", text) or int(text) >= NO_ID:
        raise _Unsure(f"{text[:20]!r} is the number of no user or group")
    return int(text)


def _epoch(text: str) -> int | None:
    return int(text) if re.fullmatch(r"[1-9][0-9]{0,10}", text) else None


def _variables(ticket: Record) -> dict[str, str]:
    """The variables of a ticket, of several with one name the first. Bytes that are no UTF-8 survive the way back."""
    found: dict[str, str] = {}
    for piece in ticket.data.split(b"\0"):
        key, equals, value = piece.partition(b"=")
        if equals:
            found.setdefault(key.decode("utf-8", "replace"), value.decode("utf-8", "surrogateescape"))
    return found


def _merged(tickets: Sequence[Record]) -> dict[str, str]:
    found: dict[str, str] = {}
    for ticket in tickets:
        for key, value in _variables(ticket).items():
            if value:
                found.setdefault(key, value)
    return found


def _steps(data: bytes) -> Iterator[dict[str, str]]:
    """The keys of each `step_info`. One that was cut is left out: it is whole if the record's next line follows."""
    lines = [line.split(b" ") for line in data.split(b"\n")]
    for index, words in enumerate(lines[:-1]):
        following = lines[index + 1]
        if words[3:4] == [b"step_info"] and following[1:4] == [*words[1:3], b"task_exit"]:
            pairs = (word.partition(b"=") for word in words if b"=" in word)
            found = {key.decode("ascii", "replace"): value.decode("ascii", "replace") for key, _, value in pairs}
            if "job" in found and "step" in found:
                yield found


def _node(tickets: Sequence[Record], records: Sequence[Record]) -> str:
    """The name of this node: slurmd's word, else the host's name."""
    sources = [*(t for t in tickets if t.kind in _NODE_TICKETS), *(r for r in records if r.kind == "tasks")]
    return next((name for record in sources if (name := node_of(record))), "")


def _groups(steps: Sequence[dict[str, str]]) -> tuple[int, ...] | None:
    for step in steps:
        numbers = step.get("groups", "").split(",")
        if "more" not in step and all(re.fullmatch(r"[0-9]{1,10}", number) for number in numbers):
            return tuple(int(number) for number in numbers if int(number) < NO_ID)
    return None


def _name(steps: Sequence[dict[str, str]]) -> str:
    """The job's name: the batch step's word, else that of all steps; a script can change it for its steps."""
    batch = [step["name"] for step in steps if step["step"] == "batch" and "name" in step]
    names = set(batch[:1] or [step["name"] for step in steps if "name" in step])
    encoded = names.pop() if len(names) == 1 else ""
    plain = re.sub(
        rb"%([0-9A-F]{2})", lambda match: bytes.fromhex(match[1].decode()), encoded.encode("ascii", "replace")
    )
    return plain.decode("utf-8", "surrogateescape")


def _array(told: dict[str, str], steps: Sequence[dict[str, str]]) -> tuple[str, str] | None:
    ticket = f"{told.get('SLURM_ARRAY_JOB_ID', '')}_{told.get('SLURM_ARRAY_TASK_ID', '')}"
    for text in (*(step.get("array", "") for step in steps), ticket):
        if match := _ARRAY.fullmatch(text):
            return match[1], match[2]
    return None
