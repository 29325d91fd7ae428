"""What the SPANK plugin and the hooks left in the spools about a job, and whether it fits what Slurm and the kernel say."""

from __future__ import annotations

import io
import re
import tarfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

NODE_SPOOL = "/var/spool/slurm-triage"
CTLD_SPOOL = "/var/spool/slurm-triage-ctld"
CONTROLLER = "ctl"
TICKETS = ("spank", "epilog", "epilogslurmctld")
KINDS = ("tasks", *TICKETS)
_NAME = re.compile(r"(?:\./)?(?:new|work|done)/(\d+)\.\d+\.(\d+)\.(\d+)\.(" + "|".join(KINDS) + ")")
_TASK = re.compile(
    r"[\d.]+ node=\S+ stepd=\d+ task_exit job=(\d+) step=(\S+) rank=(\d+) .*status=0x([0-9a-f]{4}) mono=[\d.]+ clean=\d+"
)
_INFO = re.compile(r"[\d.]+ node=\S+ stepd=\d+ step_info job=(\d+) step=\S+ uid=(\d+) ")
_FOLDER = re.compile(r"[\d.]+ node=\S+ stepd=\d+ step_info job=.* cgroup=(\w+) ")
_COUNTERS = re.compile(
    r"[\d.]+ node=\S+ stepd=\d+ task_exit job=(\d+) step=\S+ memcg (task|step|job) .*\boom_kill (\d+)"
)


@dataclass(frozen=True)
class Left:
    """One file of a spool."""

    host: str
    job: str
    order: tuple[int, int]
    kind: str
    content: bytes

    @property
    def variables(self) -> dict[str, str]:
        """A ticket's variables."""
        words = self.content.decode("utf-8", "surrogateescape").split("\0")
        return dict(word.split("=", 1) for word in words if "=" in word)

    @property
    def lines(self) -> list[str]:
        """The lines of task records."""
        return self.content.decode("utf-8", "replace").splitlines()


def named(host: str, path: str, content: bytes) -> Left:
    """A file of a spool. Raises `ValueError` for a name that no writer gives."""
    match = _NAME.fullmatch(path)
    if match is None:
        raise ValueError(f"{host}: {path} is no record of a witness")
    return Left(host, match[1], (int(match[2]), int(match[3])), match[4], content)


def unpack(host: str, archive: bytes) -> list[Left]:
    """The records of a spool that was packed with tar. Raises `ValueError` for what no writer leaves."""
    found: dict[str, Left] = {}
    with tarfile.open(fileobj=io.BytesIO(archive)) as files:
        for member in files:
            stream = files.extractfile(member) if member.isfile() else None
            if stream is None:
                continue
            if (member.mode & 0o777) != 0o600:
                raise ValueError(f"{host}: {member.name} has the mode {member.mode:o}")
            # The agent moves records on: one may have been seen in two folders.
            found[member.name.rpartition("/")[2]] = named(host, member.name, stream.read())
    return sorted(found.values(), key=lambda left: (left.job, left.order, left.kind))


def pack_command(spool: str) -> str:
    """The line of shell that packs a spool for `unpack`. A file that comes while tar lists the folder is no error."""
    # In the order in which records wander, so that none is missed. tar ends with 2 for a file that has gone meanwhile.
    return f"cd {spool} && {{ tar -c ./new ./work ./done 2>/dev/null || [ $? -le 2 ]; }}"


def evidence(left: Iterable[Left]) -> dict[str, bytes]:
    """The files as evidence, by name."""
    files: dict[str, bytes] = {}
    for number, one in enumerate(left):
        stem = {"tasks": f"tasks.{one.host}", "epilogslurmctld": "env.epilog_slurmctld"}.get(
            one.kind, f"env.epilog.{one.host}"
        )
        files[f"{stem}.{number}.txt"] = one.content
    return files


_WOUND = re.compile(
    r"state set to DRAIN|setting DOWN|Epilog error|Kill task failed|epilog\b.*\b(?:fail|error|tim)", re.I
)
_HARMLESS = re.compile(r"Nodes (?:f1|f2|f\[1-2\]) not responding, setting DOWN|node x1 state set to DRAIN")


def wounds(slurmctld_log: str) -> list[str]:
    """Lines that say that a node was hurt, but for those that scenarios kill (f1, f2) or whose Prolog they let fail (x1)."""
    return [line for line in slurmctld_log.splitlines() if _WOUND.search(line) and not _HARMLESS.search(line)]


# -------------------------------------------------------------------------------------------------- do they fit


def judge(
    left: Sequence[Left],
    psv: Sequence[Mapping[str, str]],
    kernel: bytes,
    dead: Iterable[str] = (),
    kinds: Iterable[str] = TICKETS,
) -> list[str]:
    """What does not fit between the records of one job and sacct and the kernel log; `dead` nodes may be
    silent; `kinds` of tickets are expected of a job that failed. Empty: all fits."""
    wrong = [
        *_forms(left),
        *_statuses(left, psv),
        *_tickets(left, psv, set(dead), set(kinds)),
        *_counters(left, kernel),
    ]
    if clean(psv) and not any("oom_kill" in line for one in left for line in one.lines if _counted(line)):
        wrong += [f"{one.host} kept {one.kind} of a clean job" for one in left]
    return wrong


def clean(psv: Sequence[Mapping[str, str]]) -> bool:
    """Whether accounting knows of nothing bad."""
    return bool(psv) and all(
        r["State"] == "COMPLETED" and r["ExitCode"] == "0:0" and r["DerivedExitCode"] in ("", "0:0") for r in psv
    )


def _counted(line: str) -> bool:
    match = _COUNTERS.match(line)
    return match is not None and int(match[3]) > 0


def _forms(left: Sequence[Left]) -> list[str]:
    wrong = []
    for one in left:
        if one.kind == "tasks":
            infos = [m for line in one.lines if (m := _INFO.match(line))]
            if not infos or not one.content.endswith(b"\n"):
                wrong.append(f"{one.host}: task records without identity, or torn")
            if any(m[1] != one.job or m[2] != "1001" for m in infos):
                wrong.append(f"{one.host}: task records of another job or user")
            continue
        said = one.variables
        if (
            not one.content.endswith(b"\0")
            or said.get("SLURM_JOB_ID") != one.job
            or said.get("SLURM_JOB_UID") != "1001"
        ):
            wrong.append(f"{one.host}: {one.kind} is not a whole ticket of the job")
        # Where the last step writes the plugin's ticket (runinjob) there is no environment of a hook.
        contexts = {
            "epilogslurmctld": ("epilog_slurmctld",),
            "epilog": ("epilog_slurmd",),
            "spank": ("epilog_slurmd", None),
        }
        if said.get("SLURM_SCRIPT_CONTEXT") not in contexts[one.kind]:
            wrong.append(f"{one.host}: {one.kind} says context {said.get('SLURM_SCRIPT_CONTEXT')}")
    return wrong


def _tickets(left: Sequence[Left], psv: Sequence[Mapping[str, str]], dead: set[str], expected: set[str]) -> list[str]:
    """A node with task records has a ticket for them; a job that failed by itself has one of every witness."""
    wrong = []
    for host in {one.host for one in left}:
        tasks = [one for one in left if one.host == host and one.kind == "tasks"]
        told = [
            one
            for one in left
            if one.host == host and one.kind == "spank" and "tasks" in one.variables["SLURM_TRIAGE_WHY"].split(",")
        ]
        if len(tasks) != len(told) and host not in dead:
            wrong.append(f"{host}: {len(tasks)} files of task records, {len(told)} tickets for them")
    for record in psv:
        failed = "." not in record["JobID"] and record["State"] in ("FAILED", "OUT_OF_MEMORY")
        kinds = {one.kind for one in left if one.job == record["JobIDRaw"]}
        if failed and record["ExitCode"] != "0:0" and record["NodeList"] != "None assigned":
            silent = expected - kinds
            wrong += [f"job {record['JobIDRaw']} failed, and there is no {kind} ticket" for kind in sorted(silent)]
    return wrong


def statuses(left: Sequence[Left]) -> dict[tuple[str, str], list[int]]:
    """Wait statuses of all recorded tasks by (job, step)."""
    found: dict[tuple[str, str], list[int]] = {}
    for one in left:
        for line in one.lines if one.kind == "tasks" else ():
            if match := _TASK.match(line):
                found.setdefault((match[1], match[2]), []).append(int(match[4], 16))
    return found


def missing(left: Sequence[Left], exits: Iterable[str]) -> list[str]:
    """Which of the exits ("batch 0x8900 1": step, wait status, tasks) the records do not hold."""
    seen = [f"{step} 0x{status:04x}" for (_, step), all_of_it in statuses(left).items() for status in all_of_it]
    wrong = []
    for text in exits:
        what, _, count = text.rpartition(" ")
        if seen.count(what) != int(count):
            wrong.append(f"{text} expected, the records have {seen.count(what)} of {sorted(set(seen))}")
    return wrong


def _statuses(left: Sequence[Left], psv: Sequence[Mapping[str, str]]) -> list[str]:
    """Every exit of a step that accounting calls abnormal was seen as a task's wait status."""
    seen = statuses(left)
    wrong = []
    for record in psv:
        job, _, step = record["JobIDRaw"].partition(".")
        code, signal = (int(word or 0) for word in (record["ExitCode"] or ":").split(":"))  # none before it started
        # A step of a lost node has an exit that Slurm made up; after an OOM kill it is 0:125, whatever the tasks' statuses.
        told = step not in ("", "extern") and (code or signal) and signal != 125 and record["State"] != "NODE_FAIL"
        if not told or (job, step) not in seen:
            continue
        # sacct prints the low seven bits of an exit code up to 25.05.
        fits = (
            status & 0x7F == signal if signal else (status >> 8) & 0x7F == code & 0x7F for status in seen[job, step]
        )
        if not any(fits):
            ends = [hex(status) for status in sorted(set(seen[job, step]))]
            wrong.append(f"step {record['JobIDRaw']}: sacct {code}:{signal}, tasks {ends}")
    return wrong


def _counters(left: Sequence[Left], kernel: bytes) -> list[str]:
    """Whom the kernel killed of the job, the counters know."""
    wrong = []
    for one in {one.job for one in left if one.kind == "tasks"}:
        lines = [line for other in left if other.job == one for line in other.lines]
        # 26.05 names the folder by another id of the job.
        folders = {f"job_{one}", *(match[1] for line in lines if (match := _FOLDER.match(line)))}
        names = "|".join(map(re.escape, sorted(folders)))
        killed = re.findall(rf"oom-kill:.*task_memcg=\S*/(?:{names})/".encode(), kernel)
        counted = [line for line in lines if _counted(line)]
        if bool(killed) != bool(counted):
            wrong.append(f"job {one}: the kernel log has {len(killed)} kills, the counters {len(counted)}")
    return wrong
