"""OOM kills of the attempt: was there one, whose limit was it, who was the victim, did the program go on.

OUT_OF_MEMORY, 0:125 and every "oom_kill event" count kills by *any* OOM killer in the job's cgroup: they say that a
process of the job was killed, not whose memory ran out. Whose limit it was, only the kernel's constraint line, the
cgroup's own max/oom events, or a peak at the limit can say (recorded on Slurm 24.11, cgroup v2: an innocent job at 208
of its 500 MiB is OUT_OF_MEMORY to Slurm).
"""

from __future__ import annotations

from slurm_triage import signals
from slurm_triage.attempts import Attempt
from slurm_triage.facts._logic import any_of, false, true, unknown
from slurm_triage.facts._once import once
from slurm_triage.facts._place import Place
from slurm_triage.facts.accounting import Accounting
from slurm_triage.facts.exits import Exits
from slurm_triage.facts.log import Log
from slurm_triage.facts.pods import ooms
from slurm_triage.model import Cite, Fact, JobRecord, MemoryCounters, OomKill, Sign, StepRecord

ELSEWHERE = ("user.slice", "docker", "libpod", "kubepods", "lxc", "machine.slice")
"""Parts of cgroup paths outside Slurm's own services."""
KERNEL_HOW = "read the node's kernel log around the end of the job (dmesg -T, journalctl -k) for oom-kill lines"
KILL_WINDOW = 15.0
"""Seconds around the attempt in which a kernel kill may be the job's: boot times are rounded, steps outlive the job."""

SLUID_HOW = "ask accounting for the job's SLUID: sacct -D -j {id} -P -o JobIDRaw,State,Start,End,OriginalSLUID"
"""From 26.05 on the kernel log names a job by its SLUID (on cgroup v2, unless CgroupJobIdPaths=yes)."""

NEAR = 0.8
"""Share of a limit from which on a peak does not exclude that the limit was hit."""


class Memory:
    """What the kernel, the cgroup and Slurm say about memory."""

    def __init__(self, attempt: Attempt, accounting: Accounting, exits: Exits, log: Log, place: Place) -> None:
        self.place = place
        self.attempt = attempt
        self.accounting = accounting
        self.exits = exits
        self.log = log
        self.all_kills = tuple(e for e in attempt.events if isinstance(e, OomKill))
        counters = tuple(e for e in attempt.events if isinstance(e, MemoryCounters))
        self.counters = tuple(c for c in counters if not c.unread)
        self.unread = tuple(c for c in counters if c.unread and c.level == "job")

    # ------------------------------------------------------------------------------------------ kernel

    @once
    def kills(self) -> tuple[OomKill, ...]:
        """Kernel kills whose victim was in this job: by the cgroup path, on a node of the job, in its time.

        When the evidence names no job at all (an excerpt), every kill in it that names none.
        """
        if self.attempt.job_id is None:
            return tuple(k for k in self.all_kills if k.job is None)
        ids = self.attempt.ids | {self.attempt.job_id}
        return tuple(
            k
            for k in self.all_kills
            if k.job in ids and self.place.on_our_node(k) is not False and self._may_be_ours(k)
        )

    @once
    def nearby(self) -> tuple[OomKill, ...]:
        """Kills of a process of the job's owner, on its nodes in its time, that no cgroup path places anywhere else.

        Sites without task/cgroup leave no job in the path; but a user may have other processes on the node.
        """
        found = []
        for kill in self.all_kills:
            owner = kill.uid is not None and str(kill.uid) in self.accounting.owner_names
            here = self.place.on_our_node(kill) is not False and self._in_time(kill) is True
            elsewhere = any(word in (kill.task_memcg or "") for word in ELSEWHERE)
            if kill.job is None and owner and here and not elsewhere:
                found.append(kill)
        return tuple(found)

    @once
    def of_nobody_known(self) -> tuple[OomKill, ...]:
        """Kills in the cgroup of a job named by its SLUID, where nothing tells the SLUID of this one: maybe its own."""
        job = self.attempt.job_id
        if job is None or self.attempt.sluid_known:
            return ()
        return tuple(
            k
            for k in self.all_kills
            if k.sluid is not None and k.job == k.sluid and self.place.on_our_node(k) is not False
            if self._may_be_ours(k)
        )

    def _unseen(self, says: str, because: str) -> Fact:
        """What the kernel log would tell is unknown: it was not seen, or seen and nothing tells whose line it is."""
        if self.of_nobody_known:
            sluid = self.of_nobody_known[0].sluid
            because = f"the kernel names a job by its SLUID ({sluid}), and nothing tells the SLUID of this one"
            return unknown(says, because, SLUID_HOW.format(id=self.attempt.job_id))
        return unknown(says, because, KERNEL_HOW)

    def _may_be_ours(self, kill: OomKill) -> bool:
        return self._in_time(kill) is not False

    def _in_time(self, kill: OomKill) -> bool | None:
        """Whether the kill fell into the attempt; None if the times cannot be compared. Job ids are used again."""
        start, end = self.attempt.start, self.attempt.end
        if start is None or end is None or kill.at is None or not (kill.at.zoned and start.zoned and end.zoned):
            return None
        return kill.at.hi >= start.lo - KILL_WINDOW and kill.at.lo <= end.hi + KILL_WINDOW

    def _kills_with(self, *constraints: str) -> list[Cite]:
        return [c for k in self.kills if k.constraint in constraints for c in k.cites[:2]]

    # ------------------------------------------------------------------------------------------ facts

    @once
    def oom_killed(self) -> Fact:
        """A process of the job was killed by the kernel's OOM killer (whoever's memory ran out)."""
        says = "an OOM killer killed a process of the job"
        cites: list[Cite] = [c for k in self.kills for c in k.cites[:2]]
        cites += self._oom_records()
        cites += [s.cite for s in (*self.printed, *self.log.of("slurmd_oom"), *ooms(self.log, self.place))]
        cites += [c.cite for c in self.counters if c.events.get("oom_kill", 0) > 0]
        if cites:
            return true(says, cites)
        if self.nearby:
            near = "a process of the job's owner was OOM-killed on the node, but no cgroup path ties it to this job"
            return unknown(says, near, KERNEL_HOW)
        if self.accounting.steps_known and self._slurm_counts_kills:
            witness = [r.cite for r in (self.accounting.final,) if r is not None]
            return false(says, "Slurm counts kills in the job's cgroup and counted none", witness)
        return self._unseen(says, "neither the kernel log nor Slurm's count was seen")

    @once
    def printed(self) -> tuple[Sign, ...]:
        """slurmstepd's and srun's words about an OOM kill in the job's output.

        The words of another job's log may stand there. Since 20.02 every such kill is also in the step's record: final
        accounting without one overrules them.
        """
        words = self.log.of("slurm_oom_detected", "srun_task_oom", "slurm_mem_enforce", "slurm_job_mem_limit")
        words = tuple(s for s in words if self.place.on_our_node(s) is not False)
        recorded = self.attempt.version is not None and self.attempt.version >= (20, 2)
        if recorded and self.accounting.steps_known and not self._oom_records():
            return ()
        return words

    @property
    def _slurm_counts_kills(self) -> bool:
        """task/cgroup constrains memory, so that a kill in the job's cgroup becomes 0:125 (slurm task_cgroup.c)."""
        cluster = {s.key: s.value.lower() for s in self.attempt.settings if s.scope == "cluster"}
        constrained = "yes" in (cluster.get("ConstrainRAMSpace"), cluster.get("ConstrainSwapSpace"))
        return "cgroup" in cluster.get("TaskPlugin", "") and constrained

    def _oom_records(self) -> list[Cite]:
        rows: list[JobRecord | StepRecord] = [*self.accounting.records, *self.accounting.steps]
        return [
            r.cite for r in rows if r.state == "OUT_OF_MEMORY" or (r.exit is not None and r.exit.signal == signals.OOM)
        ]

    @once
    def own_limit_hit(self) -> Fact:
        """The memory limit of the job itself (or of its step) was hit: constraint line, cgroup events or peak."""
        says = "the job's own memory limit was hit"
        cites = [c for k in self.kills if k.constraint == "MEMCG" and self._limit_is_ours(k) for c in k.cites[:2]]
        if cites:
            return true(says, [*cites, *(c.cite for c in self.counters if _hit_its_limit(c))])
        other = [*self._kills_with("NONE", "CPUSET", "MEMORY_POLICY"), *self.killed_outside_cgroups.cites]
        if other:
            return false(says, "the kernel says that memory ran out outside the job's limit", other)
        cites = [c.cite for c in self.counters if _hit_its_limit(c)]
        cites += [s.cite for s in self.printed if s.id == "slurm_mem_enforce"]
        if cites:
            return true(says, cites)
        quiet = [c.cite for c in self.counters if c.version == 2 and c.level == "job" and _killed_below_limit(c)]
        if quiet:
            return false(says, "the job's cgroup never reached its maximum (max 0, oom 0)", quiet)
        if self._killed_below_v1_limit and not any(_stood_at_limit(c) for c in self.counters):
            return false(says, "the job's peak is far below its limit", self._killed_below_v1_limit)
        return self._unseen(says, "Slurm counts kills but not whose limit was hit")

    @once
    def peak_at_limit(self) -> Fact:
        """The job's use stood at its limit (cgroup v1): page cache alone does that, so it proves no kill by itself."""
        says = "the job's memory use stood at its limit"
        cites = [c.cite for c in self.counters if _stood_at_limit(c)]
        if cites:
            return true(says, cites)
        return unknown(says, self._not_counted("peak was not seen"), "read the cgroup's peak at task exit")

    def _not_counted(self, what: str) -> str:
        """Why nothing is known of the job's cgroup: it could not be looked at, or nobody did."""
        if self.unread and not any(c.level == "job" for c in self.counters):
            return f"the job's cgroup could not be looked at when a task ended ({self.unread[0].unread})"
        return f"the job cgroup's {what}"

    @once
    def elsewhere_only(self) -> Fact:
        """Every kill whose reason the kernel names was for want of memory outside the job's own limit."""
        says = "the kernel names only a shortage outside the job's limit"
        other = [*self._kills_with("NONE", "CPUSET", "MEMORY_POLICY"), *self.killed_outside_cgroups.cites]
        own = self._kills_with("MEMCG")
        if other and not own:
            return true(says, other)
        if own:
            return false(says, "the kernel names a memory cgroup's limit", own)
        return self._unseen(says, "the kernel's constraint line was not seen")

    def _limit_is_ours(self, kill: OomKill) -> bool:
        """The cgroup whose limit was hit is the job's, or one of its steps or tasks."""
        path = kill.oom_memcg or ""
        names = {f"job_{id}" for id in self.attempt.ids} | ({kill.sluid} if kill.sluid else set())
        return any(f"/{name}/" in f"{path}/" for name in names)

    @once
    def some_cgroup_limit(self) -> Fact:
        """The kernel names a memory cgroup's limit, though not one that is surely the job's (pod, container, user)."""
        says = "the kernel names a memory cgroup's limit (of a pod, a container or a user)"
        cites = self._kills_with("MEMCG")
        if cites:
            return true(says, cites)
        signs = [s for s in ooms(self.log, self.place) if s.fields.get("reason") != "SystemOOM"]
        if self.attempt.job_id is None:  # an excerpt; else such lines may be about any job of the node
            lines = self.log.of("oom_killed", "oom_candidate")
            signs += [s for s in lines if "cgroup" in s.fields.get("prefix", "")]
            signs += self.log.of("oom_memcg_limit")
        if signs:
            return true(says, signs)
        return unknown(says, "no kernel line names a cgroup's limit", KERNEL_HOW)

    @once
    def pod_limit_hit(self) -> Fact:
        """The limit of the pod around Slurm's own cgroups was hit, and a process of this job was killed for it.

        A job's memory is charged to its cgroup below slurmstepd.scope, and so to every cgroup around that: in a pod the
        kubelet's (kubepods), whose limit is none that the job asked for.
        """
        says = "the limit of the pod around the job was hit"
        tied = [k for k in self.kills if k.constraint == "MEMCG" and k.job is not None and not self._limit_is_ours(k)]
        cites = [c for k in tied if "kubepods" in (k.oom_memcg or "") for c in k.cites[:2]]
        if cites:
            return true(says, cites)
        return self._unseen(says, "no kernel line names a pod's limit and a process of the job")

    @once
    def slurm_counted_kill(self) -> Fact:
        """Slurm itself reports the kill: state, exit 0:125 or slurmstepd's message."""
        says = "Slurm reports an out-of-memory kill in the job"
        cites: list[Cite | Sign] = [*self._oom_records(), *self.printed, *self.log.of("slurmd_oom")]
        if cites:
            return true(says, cites)
        return unknown(says, "Slurm reports no out-of-memory kill", self.accounting.how)

    @once
    def node_ran_out(self) -> Fact:
        """The whole node was out of memory when a process of this job (or of its owner beside it) was killed.

        The prefix `Out of memory` alone is no proof: mm/oom_kill.c (out_of_memory) prints it of a cpuset or a NUMA
        policy without memory, too; only kills within a memory cgroup read otherwise.
        """
        says = "the whole node was out of memory"
        cites = self._kills_with("NONE") or [c for k in self.nearby if k.constraint == "NONE" for c in k.cites[:2]]
        if cites:
            return true(says, cites)
        others = self._kills_with("MEMCG", "CPUSET", "MEMORY_POLICY")
        if others:
            return false(says, "the kernel names another constraint", others)
        if any(_hit_its_limit(c) for c in self.counters):
            hit = [c.cite for c in self.counters if _hit_its_limit(c)]
            return false(says, "the job reached its own limit", hit)
        return self._unseen(says, "the kernel's constraint line was not seen")

    @once
    def node_had_memory(self) -> Fact:
        """The kernel (or the cgroup) names another shortage, and none of the whole node."""
        says = "memory ran out elsewhere: within a limit, a cpuset or a NUMA policy"
        if self.node_ran_out.holds is False:
            return true(says, self.node_ran_out.cites)
        if self.node_ran_out.holds:
            return false(says, "the whole node was out of memory", self.node_ran_out.cites)
        return unknown(says, self.node_ran_out.because, KERNEL_HOW)

    @once
    def killed_outside_cgroups(self) -> Fact:
        """The kernel's Killed line has the prefix of a kill outside memory cgroups (node, cpuset or NUMA policy)."""
        says = "the kernel killed for want of memory outside any memory cgroup"
        near = (*self.kills, *self.nearby)
        cites = [c for k in near if k.constraint is None for c in k.cites if "Out of memory: Kill" in c.text]
        if cites:
            return true(says, cites)
        lines = self.log.of("oom_killed", "oom_candidate")
        signs = [s for s in lines if s.fields.get("prefix", "").startswith("Out of memory")]
        if signs and self.attempt.job_id is None and not any(k.job for k in self.all_kills):
            return true(says, signs)
        return self._unseen(says, "no such kernel line was seen")

    @once
    def killed_below_limit(self) -> Fact:
        """A process was OOM-killed while the job's cgroup had not reached its limit: memory ran out elsewhere."""
        says = "a process was OOM-killed while the job was below its own limit"
        low = [c.cite for c in self.counters if c.version == 2 and c.level == "job" and _killed_below_limit(c)]
        low += self._killed_below_v1_limit
        hit = [c.cite for c in self.counters if _hit_its_limit(c)]
        if low and not hit:
            return true(says, low)
        how = "read memory.events and memory.peak of the job's cgroup at task exit"
        if low:
            return unknown(says, "the job reached its own limit, too, on a node or at another time", how)
        if hit:
            return false(says, "the job reached its own limit", hit)
        return unknown(says, self._not_counted("counters were not seen"), how)

    @once
    def _killed_below_v1_limit(self) -> list[Cite]:
        """cgroup v1: a kill counted on a node where neither the job nor a step or task of it came near its limit.

        The count stands with the victim's own cgroup only, the limit with the job's. A limit that is hit leaves its
        peak at the limit, within the pages that are charged at a time (mm/memcontrol.c, MEMCG_CHARGE_BATCH).
        """
        found: list[Cite] = []
        here: dict[str | None, list[MemoryCounters]] = {}
        for counters in self.counters:
            if counters.version == 1:
                here.setdefault(counters.node, []).append(counters)
        for on_node in here.values():
            killed = [c for c in on_node if c.events.get("oom_kill", 0) > 0]
            job = [c for c in on_node if c.level == "job" and c.limit and c.peak is not None]
            if killed and job and not any(_near_limit(c) for c in on_node):
                found += [killed[0].cite, max(job, key=lambda c: c.peak or 0).cite]
        return found

    @once
    def numa_or_cpuset(self) -> Fact:
        """Memory ran out within a cpuset or NUMA policy while other memory may be free."""
        says = "memory ran out within a cpuset or NUMA policy"
        cites = self._kills_with("CPUSET", "MEMORY_POLICY")
        if cites:
            return true(says, cites)
        others = self._kills_with("MEMCG", "NONE")
        if others:
            return false(says, "the kernel names another constraint", others)
        return self._unseen(says, "the kernel's constraint line was not seen")

    @once
    def program_went_on(self) -> Fact:
        """The main process survived the kill: the script, or the task in whose step it happened, ended with 0."""
        there = [t for t in self.exits.tasks if t.step != "batch" and t.step in self._oom_steps()]
        tasks = there if all(t.status == 0 for t in there) and self._victims_ended() else []
        survived = (
            true("the step's own task survived and ended with 0", tasks)
            if tasks
            else unknown("the step's own task survived and ended with 0", "no wait status of it was seen", "")
        )
        fact = any_of("the main process survived the kill", self.exits.script_succeeded, survived, self._seff_success())
        if fact.holds is None and self.exits.script_succeeded.holds is False:
            bad = [t for t in self.exits.tasks if t.step in self._oom_steps() and t.status]
            if bad or not self._oom_steps():
                return false("the main process survived the kill", self.exits.script_succeeded.because, bad)
        return fact

    def _victims_ended(self) -> bool:
        """Whether all tasks are known to have ended where a process of a step was killed: else one may still fail."""
        counted = {(c.step, c.node) for c in self.counters if c.events.get("oom_kill", 0) > 0}
        where = counted | {(k.step, k.node) for k in self.kills}
        return all(
            self.exits.records.ended_here(step, node)
            for step, node in where
            if step != "batch" and step in self._oom_steps()
        )

    def _seff_success(self) -> Fact:
        """seff prints `State: OUT_OF_MEMORY (exit code 0)` when the script itself ended with 0."""
        says = "the job's own exit code is 0 although Slurm counted a kill"
        hits = [
            r
            for r in self.accounting.records
            if r.state == "OUT_OF_MEMORY" and r.exit and r.exit.code == 0 == r.exit.signal
        ]
        return true(says, hits) if hits else unknown(says, "no such record", self.accounting.how)

    def _oom_steps(self) -> set[str]:
        steps = {s.step or "" for s in self.accounting.steps if s.state == "OUT_OF_MEMORY" and s.step != "extern"}
        steps |= {k.step for k in self.kills if k.step}
        return steps - {""}

    # ------------------------------------------------------------------------------------------ numbers and people

    @property
    def limit(self) -> int | None:
        """The limit that counted, in bytes: of the kernel line, the job's cgroup, or the request."""
        for kill in self.kills:
            if kill.constraint == "MEMCG" and kill.limit:
                return kill.limit
        return next((c.limit for c in self.counters if c.level == "job" and c.limit), self.requested)

    @property
    def requested(self) -> int | None:
        """ReqMem in bytes as accounting prints it (the sum over nodes on a job of several nodes)."""
        return self.accounting.first(lambda r: r.req_mem)

    @property
    def peak(self) -> int | None:
        """The highest use that was measured, in bytes: the cgroup's peak, or usage in the kernel line."""
        peaks = [c.peak for c in self.counters if c.level == "job" and c.peak]
        peaks += [k.usage for k in self.kills if k.usage]
        return max(peaks, default=None)

    @property
    def max_rss(self) -> int | None:
        """The highest sampled MaxRSS of a step, in bytes. Samples miss fast growth."""
        return max((s.max_rss for s in self.accounting.steps if s.max_rss), default=None)

    @once
    def other_user_filled_node(self) -> Fact:
        """The kernel's dump shows that another user's processes held the memory."""
        says = "another user's processes held most of the node's memory"
        for kill in self.kills:
            if kill.constraint != "NONE" or not kill.tasks or kill.uid is None:
                continue
            mine = sum(t.rss for t in kill.tasks if t.uid == kill.uid)
            theirs = sum(t.rss for t in kill.tasks if t.uid not in (kill.uid, 0))
            if theirs > mine:
                return true(says, kill.cites[:1])
            return false(says, "the job's own user held the most", kill.cites[:1])
        return unknown(says, "the kernel's task dump was not seen", KERNEL_HOW)


def _hit_its_limit(counters: MemoryCounters) -> bool:
    """cgroup v2: the cgroup reached its own maximum and something died of it (its local `max` and `oom` grew)."""
    events = counters.local or counters.events
    return counters.version == 2 and events.get("max", 0) > 0 and events.get("oom", 0) > 0


def _stood_at_limit(counters: MemoryCounters) -> bool:
    return counters.level == "job" and _reaches(counters, 1.0)


def _near_limit(counters: MemoryCounters) -> bool:
    """Whether a limit may have been hit. NEAR leaves room for what a machine of many CPUs holds back."""
    return _reaches(counters, NEAR)


def _reaches(counters: MemoryCounters, share: float) -> bool:
    """Whether the peak came to this share of the limit: of memory, or of memory and swap together (cgroup v1)."""
    pairs = ((counters.peak, counters.limit), (counters.memsw_peak, counters.memsw_limit))
    return any(peak is not None and bool(limit) and peak >= share * (limit or 0) for peak, limit in pairs)


def _killed_below_limit(counters: MemoryCounters) -> bool:
    events = counters.events
    return events.get("oom_kill", 0) > 0 and events.get("max", 0) == 0 and events.get("oom", 0) == 0
