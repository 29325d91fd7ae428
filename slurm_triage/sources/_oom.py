"""Joining the lines of the kernel's OOM killer into kills, and reading cgroup paths.

One kill is printed as a block: `invoked oom-killer`, the cgroup's usage and limit, the tasks in scope, the summary
(`oom-kill:constraint=`, since 5.0) and `Killed process`. Any of them may be missing: the first ones and the summary are
rate-limited, old kernels print less, people shorten what they paste.

Names of processes are chosen by users and may hold anything, `,pid=1` and `)` too. They have at most 15 bytes, so
lines are read from the side where the kernel's own words stand.

Source: kernel mm/oom_kill.c and mm/memcontrol.c of 3.10, 4.14, 4.19, 5.10, 6.1, 6.12 and 7.2.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from slurm_triage.model import Cite, OomKill, OomTask
from slurm_triage.sources import _sluid
from slurm_triage.sources._kernel_time import Line

PAGE = 4096
"""Bytes of a page where nothing else is known (x86_64; many arm64 kernels have 65536)."""
STALE = 120.0
"""Seconds after which an unfinished block is given up: a slow serial console takes some for a long list of tasks."""
OPEN_BLOCKS = 16
"""Unfinished blocks that are kept; the oldest is finished as it is."""
TASK_LIMIT = 20_000
"""Rows of the task list that are kept of one block."""
NO_LIMIT = 2**53 * 1024
"""Bytes from which a printed limit means none (9007199254740988kB and the like)."""


# ------------------------------------------------------------------------------------------------ cgroup paths


class CgroupJob(NamedTuple):
    """Whose cgroup a path is, as Slurm names its cgroups. `node` is there where several slurmd run on one host.

    `job` is the job's id, or its SLUID where the cgroup has that name.
    """

    job: str | None = None
    step: str | None = None
    task: str | None = None
    node: str | None = None


_JOB = re.compile(
    r"/(?:slurm(?:_(?P<node1>[^/]+))?/uid_\d+(?=/job_)|(?:(?P<node2>[^/]+)_)?slurmstepd\.scope)"
    rf"/(?:job_(?P<job>\d{{1,10}})|(?P<sluid>{_sluid.FORM}))(?![^/])"
    r"(?:/step_(?P<step>[\w+.-]{1,40})(?![^/])(?:/(?:user/)?task_(?P<task>\w{1,20})(?![^/]))?)?"
)


def cgroup_job(path: str | None) -> CgroupJob:
    """Job, step and task of a cgroup path; all None for a path that is not of a Slurm job.

    Knows cgroup v1 (`/slurm[_<node>]/uid_U/job_J/step_S/task_T`) and v2
    (`.../[<node>_]slurmstepd.scope/job_J/step_S/user/task_T`, from 26.05 on the SLUID in the place of `job_J` unless
    cgroup.conf says CgroupJobIdPaths=yes), also below a pod's path. The outermost job counts: what is below may have
    been made by the job itself. So may everything below user.slice by the user, who can give it any name.

    Source: SchedMD/slurm cgroup/v1 and cgroup/v2 plugins of 22.05 to 26.05; paths with `job_J` recorded on 22.05, 24.11
    and 26.05.
    """
    match = _JOB.search(path) if path else None
    if not path or not match or "/user.slice/" in path[: match.start() + 1]:
        return CgroupJob()
    return CgroupJob(match["job"] or match["sluid"], match["step"], match["task"], match["node1"] or match["node2"])


# ------------------------------------------------------------------------------------------------ single lines


class Summary(NamedTuple):
    """An `oom-kill:constraint=` line. Members that an excerpt left out are None."""

    constraint: str | None
    oom_memcg: str | None
    task_memcg: str | None
    victim: str | None
    pid: int | None
    uid: int | None


CONSTRAINTS = frozenset({"NONE", "CPUSET", "MEMORY_POLICY", "MEMCG"})
_TAIL = re.compile(r"(.*),pid=(\d{1,10}),uid=(\d{1,10})\s*", re.DOTALL)
_ESCAPE = re.compile(r"\\x[0-9a-fA-F]{2}")
COMM = 15
"""Longest name of a process in bytes (TASK_COMM_LEN less the final NUL)."""


def _cut_at(text: str, mark: str, longest: int | None = None) -> tuple[str, str | None]:
    """`text` before `mark` and after it (None if there is no mark): the leftmost mark, whose rest is short enough."""
    start = 0 if longest is None else max(0, len(text) - 4 * longest - len(mark))
    at = text.find(mark, start)
    while at >= 0:
        rest = text[at + len(mark) :]
        if longest is None or len(_ESCAPE.sub("?", rest)) <= longest:
            return text[:at], rest
        at = text.find(mark, at + 1)
    before, found, rest = text.rpartition(mark)
    return (before, rest) if found else (text, None)


def summary(text: str) -> Summary | None:
    """The summary line of a kill, read from the right; None if `text` is none."""
    if not text.startswith("oom-kill:constraint="):
        return None
    body = text[len("oom-kill:constraint=") :]
    word = body.split(",", 1)[0].strip().removeprefix("CONSTRAINT_")
    pid = uid = None
    tail = _TAIL.fullmatch(body)
    if tail:
        body, pid, uid = tail[1], int(tail[2]), int(tail[3])
    body, victim = _cut_at(body, ",task=", COMM)
    body, task_memcg = _cut_at(body, ",task_memcg=")
    body, oom_memcg = _cut_at(body, ",oom_memcg=")
    return Summary(
        word if word in CONSTRAINTS else None,
        oom_memcg if oom_memcg and oom_memcg.startswith("/") else None,
        task_memcg if task_memcg and task_memcg.startswith("/") else None,
        victim or None,
        pid,
        uid,
    )


class Killed(NamedTuple):
    """A `Killed process` line; `rss` in bytes, the sum of the printed parts."""

    pid: int
    victim: str | None
    uid: int | None
    rss: int | None
    of_memcg: bool | None  # the prefix says whether a cgroup's limit was hit; None without a prefix


_KILLED = re.compile(
    r"(?:(?P<prefix>Out of memory|Memory cgroup out of memory)(?: \(oom_kill_allocating_task\))?: )?"
    r"Killed process (?P<pid>\d{1,10})(?:, UID (?P<uid6>\d{1,10}),)?(?P<rest> \(.*)?",
    re.DOTALL,
)
_SIZES = re.compile(
    r"(?:, UID (?P<uid7>\d{1,10}),)? total-vm:\d{1,20}kB(?P<parts>(?:, (?:anon|file|shmem)-rss:\d{1,20}kB){0,3})"
    r"(?:, UID:(?P<uid>\d{1,10}))?"
)
_PART = re.compile(r"-rss:(\d{1,20})kB")


def killed(text: str) -> Killed | None:
    """The line of a kill itself; None if `text` is none. The pid stands before the name, the sizes after it."""
    match = _KILLED.match(text)
    if not match:
        return None
    uid, victim, rss = match["uid6"], None, None
    rest = match["rest"] or ""
    end = max(rest.rfind(") total-vm:"), rest.rfind("), UID "))
    if end >= 0:
        sizes = _SIZES.match(rest, end + 1)
        if sizes:
            uid = uid or sizes["uid7"] or sizes["uid"]
            parts = _PART.findall(sizes["parts"])
            rss = sum(int(kb) for kb in parts) * 1024 if parts else None
    else:
        end = rest.rfind(")")
    if rest and end > 2:
        victim = rest[2:end]
    of_memcg = match["prefix"].startswith("Memory cgroup") if match["prefix"] else None
    return Killed(int(match["pid"]), victim, int(uid) if uid else None, rss, of_memcg)


def task_row(text: str, page: int = PAGE) -> OomTask | None:
    """A row of the kernel's task list (`[pid] uid tgid total_vm rss ... oom_score_adj name`); None if it is none.

    3.10 to 6.7 print seven numbers after the pid, 6.8 and later ten; rss is the fourth in both.
    """
    if not text.startswith("["):
        return None
    pid, closed, _ = text[1:40].partition("]")
    if not closed or not _number(pid.strip()):
        return None
    words = text[len(pid) + 2 :].split(None, 10)
    if len(words) < 8 or not all(_number(word.removeprefix("-")) for word in words[:7]):
        return None
    longer = len(words) == 11 and all(_number(word.removeprefix("-")) for word in words[7:10])
    name = words[10] if longer else text[len(pid) + 2 :].split(None, 7)[7]
    uid, rss = words[0], words[3]
    if uid.startswith("-") or rss.startswith("-"):
        return None
    return OomTask(int(pid), int(uid), int(rss) * page, name.rstrip())


def _number(word: str) -> bool:
    return len(word) <= 19 and word.isascii() and word.isdigit()


_INVOKED = " invoked oom-killer: "
_RESULT = " killed as a result of limit of "
_USAGE = re.compile(r"memory: usage (\d{1,19})kB, limit (\d{1,19})kB")
_STATS = re.compile(r"Memory cgroup stats for (.{1,4096}?)(?::$|: ?cache:|: ?anon |: ?\w{1,40}:\d)", re.DOTALL)
_CANDIDATE = re.compile(
    r"(Out of memory|Memory cgroup out of memory)(?: \(oom_kill_allocating_task\))?: Kill process (\d{1,10}) "
)
_GROUP = re.compile(r"Tasks in (/.{0,4096}) are going to be killed due to memory\.oom\.group set", re.DOTALL)
_EXITING = re.compile(r".{0,40}OOM victim (\d{1,10}) \(", re.DOTALL)


# ------------------------------------------------------------------------------------------------ joining


@dataclass
class _Block:
    """What is known of one run of the OOM killer so far."""

    node: str | None
    caller: str | None
    moment: float | None
    invoker: str | None = None
    oom_memcg: str | None = None
    task_memcg: str | None = None
    usage: int | None = None
    limit: int | None = None
    constraint: str | None = None
    candidate: int | None = None
    summary: Summary | None = None
    group: str | None = None
    done: bool = False
    result: bool = False
    tasks: list[OomTask] = field(default_factory=list)
    cite_summary: Cite | None = None
    cite_limit: Cite | None = None
    cite_result: Cite | None = None
    cite_group: Cite | None = None
    cite_invoked: Cite | None = None
    cite_candidate: Cite | None = None

    def holds(self, pid: int | None) -> bool:
        return any(task.pid == pid for task in self.tasks)

    def kill(self, end: Killed | None, cite: Cite | None, *, member: bool = False) -> OomKill:
        """The kill as far as the block tells. `end` is its `Killed process` line, `cite` that line.

        `member` is True for the further victims of memory.oom.group, whom the summary does not name.
        """
        said = self.summary
        victim = (end.victim if end else None) or (said.victim if said else None)
        pid = end.pid if end else said.pid if said else None
        constraint = said.constraint if said else self.constraint
        if constraint is None and end is not None and end.of_memcg:
            constraint = "MEMCG"
        uid = end.uid if end and end.uid is not None else None
        if uid is None and said and (said.pid == pid or said.pid is None):
            uid = said.uid
        row = next((task for task in self.tasks if task.pid == pid), None)
        task_memcg = (said.task_memcg if said else None) or self.task_memcg
        first: tuple[Cite | None, ...] = (self.cite_summary, self.cite_result, cite)
        if member:
            task_memcg = self.group  # it lived there or below; where exactly is not printed
            first = (cite, self.cite_group, self.cite_summary)
        cites = tuple(c for c in (*first, self.cite_candidate, self.cite_limit, self.cite_invoked) if c is not None)
        oom_memcg = (said.oom_memcg if said else None) or self.oom_memcg
        where = cgroup_job(task_memcg)
        if where.job is None:
            where = cgroup_job(oom_memcg)
        return OomKill(
            cites[0],
            where.job,
            where.step,
            constraint=constraint,
            oom_memcg=oom_memcg,
            task_memcg=task_memcg,
            victim=victim or (row.name if row else None),
            pid=pid,
            uid=uid if uid is not None else (row.uid if row else None),
            rss=end.rss if end and end.rss is not None else (row.rss if row else None),
            usage=self.usage,
            limit=self.limit,
            invoker=self.invoker,
            sluid=_sluid.read(where.job),
            tasks=tuple(self.tasks),
            cites=cites,
        )

    @property
    def tells(self) -> bool:
        """Whether the lines seen say that something was killed, even without a `Killed process` line."""
        return self.summary is not None or self.result or self.candidate is not None


class Joiner:
    """Joins the lines of one kernel log into kills. Feed every line, in order; then `finish`."""

    def __init__(self, page: int = PAGE) -> None:
        """`page` is the size of a page in bytes on the node that wrote the log."""
        self._page = page
        self._open: list[_Block] = []

    def feed(self, line: Line, cite: Cite) -> Iterator[OomKill]:
        """Kills that are complete with this line."""
        text = line.text
        row = task_row(text, self._page) if text.startswith("[") else None
        if row is not None:
            block = self._only(line)
            if block is not None and len(block.tasks) < TASK_LIMIT:
                block.tasks.append(row)
            return
        if _INVOKED in text:
            yield from self._begin(line, cite)
        elif text.startswith("Task in ") and _RESULT in text:
            yield from self._result(line, cite)
        elif text.startswith("memory: usage "):
            self._usage(line, cite)
        elif text.startswith("Memory cgroup stats for "):
            match = _STATS.match(text)
            block = self._only(line)
            if match and block is not None and block.oom_memcg is None and match[1].startswith("/"):
                block.oom_memcg = match[1]
        elif text.startswith("oom-kill:constraint="):
            yield from self._summary(line, cite)
        elif text.startswith("Tasks in "):
            self._group(line, cite)
        elif "Killed process " in text and (end := killed(text)) is not None:
            yield from self._killed(line, cite, end)
        elif "Kill process " in text:
            self._candidate(line, cite)
        elif "OOM victim " in text:
            match = _EXITING.match(text)
            block = self._of_pid(line, int(match[1])) if match else None
            if block is not None:
                self._open.remove(block)

    def finish(self) -> Iterator[OomKill]:
        """Kills whose `Killed process` line never came."""
        for block in self._open:
            yield from self._leave(block)
        self._open.clear()

    # -------------------------------------------------------------------------------------------- finding the block

    def _near(self, line: Line) -> list[_Block]:
        """Blocks of the same node (and printer, if told) that are not stale, latest first."""
        moment = _moment(line)
        return [
            block
            for block in reversed(self._open)
            if block.node == line.node
            and (block.caller is None or line.caller is None or block.caller == line.caller)
            and (moment is None or block.moment is None or -1.0 <= moment - block.moment <= STALE)
        ]

    def _only(self, line: Line) -> _Block | None:
        """The one block before its summary that this line can belong to; None if there is none or it cannot be told."""
        near = [b for b in self._near(line) if not b.done and b.summary is None]
        return near[0] if len(near) == 1 else None

    def _of_pid(self, line: Line, pid: int) -> _Block | None:
        """The unfinished block that speaks of this pid, or the only one that could."""
        near = [block for block in self._near(line) if not block.done]
        for block in near:
            if block.summary is not None and block.summary.pid == pid:
                return block
        for block in near:
            if block.summary is None and (block.candidate == pid or block.holds(pid)):
                return block
        # Without a pid in common: an excerpt (summary cut before the pid), a list of tasks that was not printed, or a
        # child killed in the place of the candidate (before 5.0). Only a single block that does not contradict will do.
        left = [
            block
            for block in near
            if (block.summary is None or block.summary.pid is None) and (not block.tasks or block.candidate is not None)
        ]
        return left[0] if len(left) == 1 else None

    # -------------------------------------------------------------------------------------------- the lines

    def _new(self, line: Line) -> tuple[_Block, list[OomKill]]:
        finished: list[OomKill] = []
        moment = _moment(line)
        for block in list(self._open):
            stale = moment is not None and block.moment is not None and moment - block.moment > STALE
            if stale or len(self._open) >= OPEN_BLOCKS or (block.done and block.node == line.node):
                self._open.remove(block)
                finished.extend(self._leave(block))
        block = _Block(line.node, line.caller, moment)
        self._open.append(block)
        return block, finished

    def _leave(self, block: _Block) -> Iterator[OomKill]:
        if not block.done and block.tells:
            yield block.kill(None, None)

    def _begin(self, line: Line, cite: Cite) -> Iterator[OomKill]:
        block, finished = self._new(line)
        yield from finished
        block.invoker = line.text[: line.text.rfind(_INVOKED)] or None
        block.cite_invoked = cite

    def _result(self, line: Line, cite: Cite) -> Iterator[OomKill]:
        task_memcg, _, oom_memcg = line.text[len("Task in ") :].partition(_RESULT)
        near = [b for b in self._near(line) if not b.done and not b.result and b.summary is None]
        if near:
            block = near[0]
        else:
            block, finished = self._new(line)
            yield from finished
        block.task_memcg, block.oom_memcg = task_memcg.strip() or None, oom_memcg.strip() or None
        block.constraint, block.result, block.cite_result = "MEMCG", True, cite

    def _usage(self, line: Line, cite: Cite) -> None:
        match = _USAGE.match(line.text)
        block = self._only(line)
        if match and block is not None and block.usage is None:
            block.usage = int(match[1]) * 1024
            limit = int(match[2]) * 1024
            block.limit = limit if limit < NO_LIMIT - 2**24 else None
            block.cite_limit = cite

    def _summary(self, line: Line, cite: Cite) -> Iterator[OomKill]:
        said = summary(line.text)
        if said is None:
            return
        free = [
            b
            for b in self._near(line)
            if not b.done
            and b.summary is None
            and (b.oom_memcg is None or said.oom_memcg is None or b.oom_memcg == said.oom_memcg)
            and (said.constraint in ("MEMCG", None) or b.usage is None)
        ]
        known = [b for b in free if (said.oom_memcg and b.oom_memcg == said.oom_memcg) or b.holds(said.pid)]
        if len(known) == 1 or (known and len(free) == len(known)):
            block = known[0]
        elif len(free) == 1:
            block = free[0]
        else:
            block, finished = self._new(line)
            yield from finished
        block.summary, block.cite_summary = said, cite

    def _group(self, line: Line, cite: Cite) -> None:
        match = _GROUP.match(line.text)
        near = self._near(line)
        if match and near:
            near[0].group, near[0].cite_group = match[1], cite

    def _candidate(self, line: Line, cite: Cite) -> None:
        match = _CANDIDATE.match(line.text)
        if not match:
            return
        near = [b for b in self._near(line) if not b.done and b.candidate is None and b.summary is None]
        pid = int(match[2])
        chosen = [b for b in near if b.holds(pid)] or near
        if not chosen:
            chosen = [_Block(line.node, line.caller, _moment(line))]
            self._open.append(chosen[0])
        block = chosen[0]
        block.candidate, block.cite_candidate = pid, cite
        if match[1].startswith("Memory cgroup"):
            block.constraint = "MEMCG"

    def _killed(self, line: Line, cite: Cite, end: Killed) -> Iterator[OomKill]:
        block = self._of_pid(line, end.pid)
        if block is None:
            groups = [b for b in self._near(line) if b.done and b.group is not None]
            if groups:
                block = groups[0]
            else:  # alone: its summary was dropped by the rate limit, or cut off
                block, finished = self._new(line)
                yield from finished
        member = block.done
        block.done = True
        yield block.kill(end, cite, member=member)


def _moment(line: Line) -> float | None:
    if line.seconds is not None:
        return line.seconds
    return line.at.lo if line.at is not None else None
