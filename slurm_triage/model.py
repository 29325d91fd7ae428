"""The nouns of slurm-triage. Frozen values only; this module imports nothing of ours.

The pipeline goes from noun to noun: a *case* (folder of evidence files) is parsed into `Event`s, the events of
one attempt of a job become `Fact`s, rules over facts become `Verdict`s, and the verdicts become one `Diagnosis`.

Three rules hold everywhere:

* every statement carries `Cite`s: the line of the file that says so;
* a `Fact` is true, false or *unknown*, and unknown says why and how to find out;
* a time is a `Stamp`, an interval that surely contains the instant.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from enum import Enum
from typing import Any, TypeVar

T = TypeVar("T")


def quick(cls: type[T]) -> type[T]:
    """A frozen dataclass with slots, made in half the time: a case makes thousands of these values.

    Its `__init__` does the same, through the slots themselves and not through `object.__setattr__`.
    """
    names: dict[str, Any] = {"missing": MISSING}
    head, body = [], []
    for one in fields(cls):  # type: ignore[arg-type]
        names[f"set_{one.name}"] = getattr(cls, one.name).__set__
        names[f"default_{one.name}"] = one.default
        if one.default_factory is not MISSING:
            names[f"new_{one.name}"] = one.default_factory
            body.append(f"if {one.name} is missing: {one.name} = new_{one.name}()")
        bare = one.default is MISSING and one.default_factory is MISSING
        head.append(one.name if bare else f"{one.name}=default_{one.name}")
        body.append(f"set_{one.name}(self, {one.name})")
    lines = "\n    ".join(body)
    exec(f"def __init__(self, {', '.join(head)}):\n    {lines}", names)  # as dataclasses makes its own
    made = names["__init__"]
    made.__annotations__ = cls.__init__.__annotations__
    made.__qualname__, made.__module__ = f"{cls.__qualname__}.__init__", cls.__module__
    cls.__init__ = made  # type: ignore[method-assign]
    return cls


# ------------------------------------------------------------------------------------------------ time and citation


@quick
@dataclass(frozen=True, slots=True)
class Stamp:
    """An instant known to lie in [lo, hi], in seconds since the epoch.

    `zoned` is False when the time was printed without a zone and the cluster's offset is not known: such stamps can be
    compared with each other but not with epochs.
    """

    lo: float
    hi: float
    zoned: bool = True

    def before(self, other: Stamp) -> bool | None:
        """True if surely earlier than `other`, False if surely not, None if the two cannot be told apart."""
        if self.zoned != other.zoned:
            return None
        if self.hi < other.lo:
            return True
        if self.lo >= other.hi:
            return False
        return None

    def seconds_since(self, other: Stamp) -> float | None:
        """Seconds from `other` to this instant (middle of both intervals), None if not comparable."""
        if self.zoned != other.zoned:
            return None
        return (self.lo + self.hi) / 2 - (other.lo + other.hi) / 2


@quick
@dataclass(frozen=True, slots=True)
class Cite:
    """One line of evidence. `text` really is line `line` (1-based) of `file`, cut at 1,000 characters.

    In a NUL-separated environment file `line` counts the records. `node` is the node the line speaks of or was
    written on, None if unknown.
    """

    source: str
    file: str
    line: int
    text: str
    node: str | None = None
    at: Stamp | None = None


class Voice(Enum):
    """Who speaks in a message line: that decides what the line can prove."""

    KERNEL = "kernel"  # the kernel log itself
    SLURM = "slurm"  # slurmctld, slurmd, slurmstepd or srun, wherever the line was found
    PROGRAM = "program"  # the job's own output: anything may be printed there
    KUBERNETES = "kubernetes"  # kubectl output and events


# ------------------------------------------------------------------------------------------------ events


@quick
@dataclass(frozen=True, slots=True)
class Event:
    """Something a source read from one or several lines.

    `job` is the job id as the line names it (`1065`, `1001_4`, `1111+1`, in a cgroup's path also the SLUID), None when
    the line names none; `step` is `0`, `batch`, `extern`, `interactive` or None.
    """

    cite: Cite
    job: str | None = None
    step: str | None = None

    @property
    def at(self) -> Stamp | None:
        """When it happened, if the line says so."""
        return self.cite.at

    @property
    def node(self) -> str | None:
        """Where it happened, if the line or the file says so."""
        return self.cite.node


@quick
@dataclass(frozen=True, slots=True)
class Unreadable(Event):
    """A record that could not be read; `why` is a short sentence. The other records of the file are not affected."""

    why: str = ""


@quick
@dataclass(frozen=True, slots=True)
class Sign(Event):
    """A message line that matched a signature of the catalog (`sources/catalog/`).

    `id` is the signature's id (`slurm_time_limit`, `python_exception`, `nvidia_xid`); `fields` are the named groups
    of the form that matched.
    """

    id: str = ""
    voice: Voice = Voice.PROGRAM
    fields: Mapping[str, str] = field(default_factory=dict)


@quick
@dataclass(frozen=True, slots=True)
class StackLine(Event):
    """A line of the job's output that only one software stack prints (`sources/catalog/stack/`).

    `stack` is its name (`pytorch`). `banner` is True for a line that an import alone prints, `checkpoint` for one that
    tells of a checkpoint.
    """

    stack: str = ""
    banner: bool = False
    checkpoint: bool = False


@quick
@dataclass(frozen=True, slots=True)
class ShownExit:
    """An exit code as a Slurm tool shows it: `rc:sig`.

    `minus_128` is True when the tool that printed it subtracts 128 from codes of 128 and more (sacct text up to
    25.05), None when the version is not known, so that `9:0` may be 9 or 137.
    """

    code: int
    signal: int
    minus_128: bool | None = False


@quick
@dataclass(frozen=True, slots=True)
class JobRecord(Event):
    """The allocation line of one attempt in accounting (sacct text, table or JSON).

    `job` is the raw id. Times are Stamps; durations in seconds; memory in bytes. None = the record does not say.
    `final` is False for a record that was asked too early (inside a hook), None if not known.
    """

    shown_id: str | None = None  # JobID: 1001_4, 1111+1
    array_id: str | None = None
    array_task: str | None = None
    het_id: str | None = None
    het_offset: str | None = None
    name: str | None = None
    user: str | None = None
    uid: int | None = None
    account: str | None = None
    partition: str | None = None
    qos: str | None = None
    cluster: str | None = None
    state: str | None = None  # base state: FAILED, CANCELLED, ...
    flags: tuple[str, ...] = ()  # further states: REQUEUED, RESIZING
    cancelled_by: str | None = None  # uid or user name, as printed
    exit: ShownExit | None = None
    derived: ShownExit | None = None
    submit: Stamp | None = None
    start: Stamp | None = None  # None also when the job never started
    started: bool | None = None  # False: the record says that it never started
    end: Stamp | None = None
    elapsed: float | None = None
    suspended: float | None = None
    time_limit: float | None = None  # seconds; inf = UNLIMITED
    reason: str | None = None
    nodes: str | None = None  # folded node list
    n_nodes: int | None = None
    n_tasks: int | None = None
    failed_node: str | None = None
    req_mem: int | None = None  # bytes, of the whole job as printed
    req_mem_per: str | None = None  # "node", "cpu" or None (total)
    max_rss: int | None = None
    tres: str | None = None  # what the job was given, as sacct prints AllocTRES
    restarts: int | None = None
    sluid: str | None = None  # of the run (26.05 and later): names its cgroups
    record_sluid: str | None = None  # of this record: another one after a resize
    work_dir: str | None = None
    stdout: str | None = None
    stderr: str | None = None
    submit_line: str | None = None
    final: bool | None = None


@quick
@dataclass(frozen=True, slots=True)
class StepRecord(Event):
    """A step line of accounting. `job` and `step` identify it; other members as in `JobRecord`."""

    name: str | None = None
    state: str | None = None
    cancelled_by: str | None = None
    exit: ShownExit | None = None
    start: Stamp | None = None
    end: Stamp | None = None
    elapsed: float | None = None
    nodes: str | None = None
    n_tasks: int | None = None
    max_rss: int | None = None
    max_rss_task: int | None = None
    max_rss_node: str | None = None
    submit_line: str | None = None
    final: bool | None = None


@quick
@dataclass(frozen=True, slots=True)
class ControllerJob(Event):
    """One job of `scontrol show job`: slurmctld's memory, richer than accounting but short-lived.

    `values` holds every KEY=value as printed; `cites` the line of each key. `moment` is `hook`, `held` or `final`
    where the file's name says it, else None.
    """

    values: Mapping[str, str] = field(default_factory=dict)
    cites: Mapping[str, Cite] = field(default_factory=dict)
    start: Stamp | None = None
    end: Stamp | None = None
    submit: Stamp | None = None
    preempt_time: Stamp | None = None
    suspend_time: Stamp | None = None
    moment: str | None = None


@quick
@dataclass(frozen=True, slots=True)
class HookEnv(Event):
    """The environment of Epilog (`hook` = `epilog_slurmd`) or EpilogSlurmctld (`epilog_slurmctld`).

    `forgeable` is True when the file was one KEY=value a line, so that a newline in a value can fake a variable.
    """

    hook: str = ""
    values: Mapping[str, str] = field(default_factory=dict)
    cites: Mapping[str, Cite] = field(default_factory=dict)
    start: Stamp | None = None
    end: Stamp | None = None
    forgeable: bool = True


@quick
@dataclass(frozen=True, slots=True)
class StepInfo(Event):
    """What a slurmstepd says of its step before its first task record. None = not said, or not to be relied on.

    `stepd` is the process id of slurmstepd, `tasks` how many tasks the step has on this node, `of` in all, `uid` the
    job's user. `restart` counts the requeues of the job (0: first attempt): slurmd tells it to the slurmstepd of the
    batch script only, all others say 0 (stepd_step_rec_create of Slurm 22.05 to 26.05), so their 0 is None here.
    `sluid` is the name of the job's cgroup where that is a SLUID.
    """

    stepd: int | None = None
    restart: int | None = None
    tasks: int | None = None
    of: int | None = None
    uid: int | None = None
    sluid: str | None = None


@quick
@dataclass(frozen=True, slots=True)
class TaskExit(Event):
    """slurmstepd's wait status of one task (SPANK task_exit). `status` is the raw wait status.

    `stepd` is the process id of slurmstepd, `restart` as in its `StepInfo`. `mono` is CLOCK_MONOTONIC in seconds when
    the task was reaped; it orders the tasks of one slurmstepd even when the wall clock is set. `clean` is None for a
    witness that records every task; else only what went wrong is recorded: tasks that ended with status 0 before the
    first record of that slurmstepd have no record, `clean` is their number.
    """

    rank: int = 0
    local_rank: int | None = None
    pid: int | None = None
    status: int = 0
    stepd: int | None = None
    restart: int | None = None
    mono: float | None = None
    clean: int | None = None

    @property
    def signal(self) -> int:
        """The signal that killed the task, 0 if it exited."""
        return self.status & 0x7F

    @property
    def code(self) -> int:
        """The exit code, 0 if it was killed by a signal."""
        return 0 if self.signal else (self.status >> 8) & 0xFF

    @property
    def core_dumped(self) -> bool:
        """The core bit of the wait status."""
        return bool(self.status & 0x80)


@quick
@dataclass(frozen=True, slots=True)
class MemoryCounters(Event):
    """Counters of a memory cgroup, read when a task ended. Sizes in bytes, None = not there.

    `level` is `job`, `step` or `task`. `events` counts the subtree, `local` the cgroup itself (cgroup v2). On v1 only
    `oom_kill` is in `events`, and it counts only kills in that very cgroup; `memsw_peak` and `memsw_limit` are of
    memory and swap together. `unread` says why the cgroup could not be looked at; then nothing else is known of it.
    `restart` as in the `StepInfo` of the same slurmstepd.
    """

    level: str = ""
    version: int = 2
    events: Mapping[str, int] = field(default_factory=dict)
    local: Mapping[str, int] = field(default_factory=dict)
    peak: int | None = None
    limit: int | None = None  # None = no limit or not read
    failcnt: int | None = None
    memsw_peak: int | None = None
    memsw_limit: int | None = None
    unread: str = ""
    restart: int | None = None


@quick
@dataclass(frozen=True, slots=True)
class OomTask:
    """A row of the kernel's task dump; `rss` in bytes (pages times the page size of the log, 4 KiB if not said)."""

    pid: int
    uid: int
    rss: int
    name: str


@quick
@dataclass(frozen=True, slots=True)
class OomKill(Event):
    """One kill by the kernel's OOM killer, joined from its lines (invoked, limit, dump, summary, Killed).

    `constraint` is `MEMCG`, `NONE`, `CPUSET`, `MEMORY_POLICY` or None (not printed: line lost or old kernel).
    `oom_memcg` is the cgroup whose limit was hit, `task_memcg` where the victim lived. Sizes in bytes. `sluid` is there
    where the path names the job by it (26.05 and later); it is also `job` until somebody tells the job's id.
    `cites` holds the deciding lines, most telling first; `cite` is the first of them.
    """

    constraint: str | None = None
    oom_memcg: str | None = None
    task_memcg: str | None = None
    victim: str | None = None
    pid: int | None = None
    uid: int | None = None
    rss: int | None = None
    usage: int | None = None
    limit: int | None = None
    invoker: str | None = None
    sluid: str | None = None
    tasks: tuple[OomTask, ...] = ()
    cites: tuple[Cite, ...] = ()


@quick
@dataclass(frozen=True, slots=True)
class Reading(Event):
    """What the agent measured on a node after the job's end.

    `what` is `node` (what machine it is), `file_system` (room and inodes), `baseline` and `counter` (hardware errors
    since a baseline), `gpu` (which one sits at which PCI address) or `gpu_memory` (NVML's counts). `values` are as
    printed; `cites` holds the line of a value where it has one of its own. `taken` is when it was measured.
    """

    what: str = ""
    values: Mapping[str, str] = field(default_factory=dict)
    cites: Mapping[str, Cite] = field(default_factory=dict)
    taken: Stamp | None = None

    def number(self, key: str) -> int | None:
        """A value as a number, None if it is none."""
        text = self.values.get(key, "")
        return int(text) if text.isascii() and text.isdigit() and len(text) < 20 else None


@quick
@dataclass(frozen=True, slots=True)
class Setting(Event):
    """One configured value in force. `scope` is `cluster`, `partition` or `qos`; `owner` the partition's or QOS's name.

    `value` is as printed (`KillWait` = `4 sec`).
    """

    scope: str = ""
    owner: str = ""
    key: str = ""
    value: str = ""


# ------------------------------------------------------------------------------------------------ coverage


@quick
@dataclass(frozen=True, slots=True)
class Coverage:
    """What was read from one file, or why it was not."""

    file: str
    kind: str | None  # None: not recognised
    lines: int = 0
    events: int = 0
    node: str | None = None
    first: Stamp | None = None
    last: Stamp | None = None
    note: str = ""


# ------------------------------------------------------------------------------------------------ reasoning


@quick
@dataclass(frozen=True, slots=True)
class Fact:
    """A statement and whether it holds.

    `says` is the statement in plain words. `holds` is True, False or None (unknown). For False and None `because`
    says why; for None `how` says how to find out.
    """

    says: str
    holds: bool | None
    cites: tuple[Cite, ...] = ()
    because: str = ""
    how: str = ""


class Strength(Enum):
    """How sure a verdict is, by the truth table in `engine`."""

    CONFIRMED = "confirmed"
    LIKELY = "likely"
    POSSIBLE = "possible"
    RULED_OUT = "ruled out"
    SILENT = "silent"

    @property
    def rank(self) -> int:
        """3 for confirmed, 2 for likely, 1 for possible, 0 for the rest."""
        return _RANKS.get(self._value_, 0)


_RANKS = {"confirmed": 3, "likely": 2, "possible": 1}


class Owner(Enum):
    """Who has to act."""

    USER = "user"
    ADMIN = "admin"
    HARDWARE = "hardware"
    SCHEDULER = "scheduler"
    NOBODY = "nobody"
    UNKNOWN = "unknown"


class Role(Enum):
    """What a condition does to its rule."""

    REQUIRE = "require"
    CONFIRM = "confirm"
    SUPPORT = "support"
    REFUTE = "refute"


@quick
@dataclass(frozen=True, slots=True)
class Condition:
    """A fact in its role for one rule."""

    role: Role
    fact: Fact


@quick
@dataclass(frozen=True, slots=True)
class Action:
    """One thing to do; `command` is paste-ready or None."""

    text: str
    command: str | None = None


@quick
@dataclass(frozen=True, slots=True)
class Moment:
    """A line of the timeline."""

    at: Stamp | None
    what: str
    cite: Cite


@quick
@dataclass(frozen=True, slots=True)
class FirstFailure:
    """The rank that failed first, where it can be known."""

    rank: int | None
    node: str | None
    at: Stamp | None
    what: str
    cite: Cite


@quick
@dataclass(frozen=True, slots=True)
class Verdict:
    """What one rule came to. `site_rule` is the file of the site's rule, empty for a rule of the program."""

    cause: str
    strength: Strength
    conditions: tuple[Condition, ...]
    owner: Owner = Owner.UNKNOWN
    summary: str = ""
    actions: tuple[Action, ...] = ()
    at: Stamp | None = None
    notes: tuple[str, ...] = ()
    site_rule: str = ""


@quick
@dataclass(frozen=True, slots=True)
class Missing:
    """A fact that was not to be had, what it would settle, and how to get it."""

    fact: str
    would_settle: str
    how: str


@quick
@dataclass(frozen=True, slots=True)
class ExitInfo:
    """The job's exit as best known. `code`/`signal` None = unknown; `raw` the wait status where a hook saw it."""

    code: int | None = None
    signal: int | None = None
    core_dumped: bool | None = None
    raw: int | None = None
    shown_by_sacct: str | None = None
    meaning: str = ""


@quick
@dataclass(frozen=True, slots=True)
class JobIdentity:
    """Which job, which attempt. `attempt` counts from 1; `attempts` is how many the evidence shows."""

    cluster: str | None = None
    job_id: str | None = None
    shown_id: str | None = None
    array: str | None = None
    array_task: str | None = None
    het: str | None = None
    het_offset: str | None = None
    attempt: int = 1
    attempts: int = 1
    user: str | None = None
    account: str | None = None
    partition: str | None = None
    qos: str | None = None
    name: str | None = None
    state: str | None = None
    submit: Stamp | None = None
    start: Stamp | None = None
    end: Stamp | None = None
    nodes: tuple[str, ...] = ()
    exit: ExitInfo = ExitInfo()
    uid: int | None = None  # of the owner: names of other uids' processes are not shown


@quick
@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The answer for one attempt, or for a whole folder (then with `parts`). `cause` is an id of `causes.toml`.

    `site_rules` names the rules of the site that are behind it, by cause and file; such a cause may be the site's own.
    """

    job: JobIdentity
    cause: str
    owner: Owner
    strength: Strength | None  # None = cause unknown
    summary: str
    actions: tuple[Action, ...] = ()
    evidence: tuple[Cite, ...] = ()
    timeline: tuple[Moment, ...] = ()
    first_failure: FirstFailure | None = None
    ruled_out: tuple[Verdict, ...] = ()
    missing: tuple[Missing, ...] = ()
    also: tuple[Verdict, ...] = ()
    numbers: tuple[tuple[str, str], ...] = ()  # label, value with unit ("n/a" when unknown)
    considered: tuple[Verdict, ...] = ()
    coverage: tuple[Coverage, ...] = ()
    parts: tuple[Diagnosis, ...] = ()
    site_rules: tuple[tuple[str, str], ...] = ()
