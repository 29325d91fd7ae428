"""From a case to a diagnosis: parse, split into attempts, judge by every rule, choose, join the parts.

Everything here is a pure function of the case.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from slurm_triage import causes, extension, sources
from slurm_triage.attempts import Attempt, split
from slurm_triage.case import Case
from slurm_triage.facts import Job
from slurm_triage.facts.numbers import numbers
from slurm_triage.facts.timeline import timeline
from slurm_triage.model import (
    Cite,
    Coverage,
    Diagnosis,
    Event,
    ExitInfo,
    JobIdentity,
    Missing,
    Owner,
    Role,
    Strength,
    Unreadable,
    Verdict,
)
from slurm_triage.nodeset import expand
from slurm_triage.rules import all_rules, judge
from slurm_triage.sources._finder import Scan

_REFUTE, _NEEDED = Role.REFUTE, (Role.REQUIRE, Role.CONFIRM)
_RULED_OUT, _LIKELY = Strength.RULED_OUT, Strength.LIKELY.rank
MOST_EVIDENCE = 12
COVERAGE_PARTS = 16
"""Up to so many parts each carries the coverage of the folder; with more only the top level does."""
ALIVE = ("PENDING", "RUNNING", "CONFIGURING", "COMPLETING", "SUSPENDED", "STOPPED")
"""States of a job that may still end well."""
LOOKALIKES = (
    "memcg_oom", "global_oom", "time_limit", "preempted", "cancelled_by_user", "external_signal", "node_fail",
    "app_segfault", "app_error",
)  # fmt: skip
"""What people suspect first: said first under "what this is not"."""
TELLING = ("kernel_log", "task_exits", "slurmctld_log", "slurmd_log", "kubectl", "job_log", "scontrol_job", "sacct")
"""Sources by how much a line of theirs tells; those not named come last."""


@dataclass(frozen=True)
class Study:
    """A diagnosis with the attempts behind it, in the order of `diagnosis.parts` (or the only one)."""

    diagnosis: Diagnosis
    attempts: tuple[Attempt, ...]

    @property
    def evidence_found(self) -> bool:
        """Whether any file of the folder was recognised as evidence."""
        return any(c.kind is not None for c in self.diagnosis.coverage)


def diagnose(case: Case) -> Diagnosis:
    """The diagnosis of a folder: of its one attempt, or of all attempts and parts with the telling one on top."""
    return study(case).diagnosis


def study(case: Case, scan: Scan | None = None) -> Study:
    """As `diagnose`, with the attempts: what the history keeps beside the document comes from them.

    `scan` searches long files faster; the diagnosis is the same without.
    """
    return study_events(*sources.parse(case, scan=scan), case)


def study_events(events: Sequence[Event], coverage: Sequence[Coverage], case: Case) -> Study:
    """As `study`, for evidence that is parsed already."""
    usable = [e for e in events if not isinstance(e, Unreadable)]
    coverage = (*coverage, *extension.current().problems)
    attempts = split(usable, coverage, case.manifest.version, case.manifest.cluster)
    return Study(join([diagnose_attempt(attempt) for attempt in attempts], coverage), tuple(attempts))


# ------------------------------------------------------------------------------------------------ one attempt


def diagnose_attempt(attempt: Attempt) -> Diagnosis:
    """The diagnosis of one attempt."""
    job = Job(attempt)
    verdicts, failed = _judged(job)
    ranked = rank(verdicts)
    identity = identify(job)
    excluded = [v for v in verdicts if v.strength is _RULED_OUT and _excluding(v)]
    ruled_out = tuple(sorted(excluded, key=lambda v: LOOKALIKES.index(v.cause) if v.cause in LOOKALIKES else 99))
    common = {
        "timeline": timeline(job),
        "numbers": numbers(job),
        "considered": verdicts,
        "coverage": (*attempt.coverage, *failed),
        "site_rules": tuple((v.cause, v.site_rule) for v in ranked if v.site_rule),
        "first_failure": job.ranks.first or job.first_words.first,
    }
    if not ranked:
        missing = _missing(v for v in verdicts if v.strength is Strength.SILENT)
        text = f"The evidence at hand does not name a cause ({_state(identity)})."
        if identity.state in ALIVE:
            text = f"The job has not ended (state {identity.state}): there is nothing to explain yet."
        return Diagnosis(
            identity, causes.UNKNOWN, Owner.UNKNOWN, None, text, (), _last_words(job), ruled_out=ruled_out,
            missing=missing or _nothing_seen(job), **common,  # type: ignore[arg-type]
        )  # fmt: skip
    best, others = ranked[0], tuple(ranked[1:])
    doubtful = (best, *others) if best.strength is not Strength.CONFIRMED else ()
    return Diagnosis(
        identity,
        best.cause,
        best.owner,
        best.strength,
        best.summary,
        best.actions,
        _evidence([best, *(v for v in others if v.strength is Strength.CONFIRMED)]),
        ruled_out=tuple(v for v in ruled_out if not causes.refines(best.cause, v.cause)),
        missing=(*_missing(doubtful), *_first_rank(job)),
        also=others,
        **common,  # type: ignore[arg-type]
    )


def _judged(job: Job) -> tuple[tuple[Verdict, ...], list[Coverage]]:
    """What every rule says, one verdict for each cause, and which rules of the site failed.

    A rule of the program that raises is a defect of the program, and shown. One of the site costs its own word only:
    whoever runs the service need not be who wrote it.
    """
    if not extension.current().rules:
        return tuple(judge(rule, job) for rule in all_rules()), []
    verdicts: dict[str, Verdict] = {}
    failed = []
    for rule in all_rules():
        if not rule.file:
            verdicts[rule.cause] = judge(rule, job)
            continue
        try:
            verdict = replace(judge(rule, job), site_rule=rule.file)
        except Exception as error:
            why = f"this site's rule of {rule.cause} failed: {type(error).__name__}: {error}"
            failed.append(Coverage(f"{extension.PREFIX}{rule.file}", None, note=why[:300]))
            continue
        before = verdicts.get(rule.cause)
        if before is None or verdict.strength.rank > before.strength.rank:  # of one cause the surer one speaks
            verdicts[rule.cause] = verdict
    return tuple(verdicts.values()), failed


@extension.cached
def _supersedes() -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for rule in all_rules():
        found[rule.cause] = (*found.get(rule.cause, ()), *rule.supersedes)
    return found


def rank(verdicts: Iterable[Verdict]) -> list[Verdict]:
    """Candidates, the answer first: by strength, then by time; without those that one at least as strong supersedes.

    A cause that is only possible supersedes nothing.
    """
    supersedes = _supersedes()
    candidates = [v for v in verdicts if v.strength.rank > 0]
    kept = [
        v
        for v in candidates
        if not any(
            v.cause in supersedes.get(w.cause, ()) and w.strength.rank >= max(v.strength.rank, _LIKELY)
            for w in candidates
            if w is not v
        )
    ]
    return sorted(kept, key=lambda v: (-v.strength.rank, v.at.lo if v.at else float("inf"), v.cause))


def _excluding(verdict: Verdict) -> bool:
    """Whether a line of evidence (and not mere silence) rules the cause out."""
    return any(_excludes(c.role, c.fact.holds) and c.fact.cites for c in verdict.conditions)


def _excludes(role: Role, holds: bool | None) -> bool:
    return holds is (role is _REFUTE)


def _evidence(verdicts: Iterable[Verdict]) -> tuple[Cite, ...]:
    found: dict[tuple[str, int], Cite] = {}
    for verdict in verdicts:
        for condition in verdict.conditions:
            if condition.role is not _REFUTE and condition.fact.holds:
                for cite in condition.fact.cites[:6]:
                    found.setdefault((cite.file, cite.line), cite)
    order = {source: index for index, source in enumerate(TELLING)}
    return tuple(sorted(found.values(), key=lambda c: order.get(c.source, len(order)))[:MOST_EVIDENCE])


def _missing(verdicts: Iterable[Verdict]) -> tuple[Missing, ...]:
    found: dict[str, Missing] = {}
    for verdict in verdicts:
        for condition in verdict.conditions:
            fact = condition.fact
            if fact.holds is None and fact.how and condition.role in _NEEDED:
                found.setdefault(fact.says, Missing(fact.says, f"{verdict.cause}: {fact.because}", fact.how))
    return tuple(found.values())[:8]


def _first_rank(job: Job) -> tuple[Missing, ...]:
    """Which of several failing tasks was the first, where that cannot be told."""
    fact = job.ranks.undecided
    if fact is None or job.first_words.first is not None:
        return ()
    return (Missing(f"{fact.says}: {fact.because}", "whose error the other ranks only followed", fact.how),)


def _nothing_seen(job: Job) -> tuple[Missing, ...]:
    found = []
    if job.accounting.final is None:
        found.append(Missing("the job's final state and exit code", "what kind of end it was", job.accounting.how))
    if not job.log.read:
        found.append(Missing("the job's own output", "what the program said last", job.log.how))
    return tuple(found)


def _last_words(job: Job) -> tuple[Cite, ...]:
    """For an unknown cause: the state line and the last line of the log, so that the reader has somewhere to start."""
    cites = [r.cite for r in job.accounting.records[:1]] + [s.cite for s in job.log.ends[:1] if s.cite.text]
    return tuple(cites)


def _state(identity: JobIdentity) -> str:
    shown = identity.exit.shown_by_sacct
    return f"state {identity.state or 'not known'}" + (f", exit {shown}" if shown else "")


def identify(job: Job) -> JobIdentity:
    """Who and what the attempt is."""
    attempt, first = job.attempt, job.accounting.first
    nodes = first(lambda r: r.nodes)
    hook = {k: v for h in job.accounting.hooks for k, v in h.values.items()}
    view = {k: v for c in job.accounting.all_views for k, v in c.values.items()}
    cluster_name = next((s.value for s in attempt.settings if s.scope == "cluster" and s.key == "ClusterName"), None)
    return JobIdentity(
        cluster=attempt.cluster or first(lambda r: r.cluster) or hook.get("SLURM_CLUSTER_NAME") or cluster_name,
        job_id=attempt.job_id,
        shown_id=first(lambda r: r.shown_id) or attempt.job_id,
        array=first(lambda r: r.array_id) or hook.get("SLURM_ARRAY_JOB_ID") or view.get("ArrayJobId"),
        array_task=first(lambda r: r.array_task) or hook.get("SLURM_ARRAY_TASK_ID") or view.get("ArrayTaskId"),
        het=first(lambda r: r.het_id) or hook.get("SLURM_HET_JOB_ID") or view.get("HetJobId"),
        het_offset=first(lambda r: r.het_offset) or hook.get("SLURM_HET_JOB_OFFSET") or view.get("HetJobOffset"),
        attempt=attempt.number,
        attempts=attempt.count,
        uid=_uid(first(lambda r: r.uid), hook.get("SLURM_JOB_UID"), job.exits.records.uid),
        user=first(lambda r: r.user) or hook.get("SLURM_JOB_USER"),
        account=first(lambda r: r.account) or hook.get("SLURM_JOB_ACCOUNT"),
        partition=job.limits.partition,
        qos=job.limits.qos,
        name=first(lambda r: r.name) or hook.get("SLURM_JOB_NAME"),
        state=job.accounting.state,
        submit=first(lambda r: r.submit),
        start=attempt.start,
        end=attempt.end,
        nodes=tuple(_nodes(nodes or hook.get("SLURM_JOB_NODELIST") or hook.get("SLURM_NODELIST"))),
        exit=job.exits.told,
    )


def _uid(recorded: int | None, hook: str | None, told: int | None) -> int | None:
    if recorded is not None:
        return recorded
    return int(hook) if hook and hook.isascii() and hook.isdigit() and len(hook) < 11 else told


def _nodes(folded: str | None) -> list[str]:
    if not folded or folded.lower().startswith("none"):
        return []
    return list(expand(folded) or [folded])


# ------------------------------------------------------------------------------------------------ several attempts


def join(diagnoses: Sequence[Diagnosis], coverage: Sequence[Coverage]) -> Diagnosis:
    """One answer for the folder: the newest attempt that ended badly, or `array_mixed` when parts of one job differ.

    Jobs that have nothing to do with each other (an accounting query over a day, say) are not summed up: of them the
    one that ended badly last is on top, the others stand in `parts`.
    """
    if len(diagnoses) == 1:
        return diagnoses[0]
    if extension.current().rules:
        failed = (c for d in diagnoses for c in d.coverage if c.file.startswith(extension.PREFIX))
        coverage = tuple(dict.fromkeys((*coverage, *failed)))
    if len(diagnoses) > COVERAGE_PARTS:  # else each of a thousand tasks would list the files of all
        diagnoses = [replace(d, coverage=()) for d in diagnoses]
    by_part: dict[str | None, list[Diagnosis]] = {}
    for diagnosis in diagnoses:
        by_part.setdefault(diagnosis.job.job_id, []).append(diagnosis)
    tops = [_telling(attempts) for attempts in by_part.values()]
    bad = [d for d in tops if ended_badly(d)]
    if not _of_one_job(tops):
        newest = max(enumerate(bad or tops), key=lambda item: (_when(item[1]), item[0]))[1]
        return replace(newest, coverage=tuple(coverage), parts=tuple(diagnoses))
    if len({d.cause for d in bad}) > 1:
        return _mixed(tops, bad, diagnoses, coverage)
    top = bad[0] if bad else tops[-1]
    return replace(top, coverage=tuple(coverage), parts=tuple(diagnoses))


def _of_one_job(tops: Sequence[Diagnosis]) -> bool:
    """Whether the parts are attempts of one job, tasks of one array or components of one heterogeneous job."""
    ids = {d.job.job_id for d in tops}
    arrays, hets = {d.job.array for d in tops}, {d.job.het for d in tops}
    return len(ids) == 1 or any(len(shared) == 1 and None not in shared for shared in (arrays, hets))


def _when(diagnosis: Diagnosis) -> float:
    """When the attempt ended (else started, else was submitted), for telling which one is the newest."""
    at = diagnosis.job.end or diagnosis.job.start or diagnosis.job.submit
    return at.lo if at else float("-inf")


def ended_badly(diagnosis: Diagnosis) -> bool:
    """Whether the attempt needs explaining."""
    if diagnosis.cause == causes.UNKNOWN:
        job = diagnosis.job
        if job.state is None:
            return bool(job.exit.code or job.exit.signal)
        return job.state not in ("COMPLETED", "PENDING", "RUNNING")
    return diagnosis.cause != causes.NO_FAILURE


def _telling(attempts: Sequence[Diagnosis]) -> Diagnosis:
    """The newest attempt that ran and ended badly; one that only waited in the queue tells less."""
    bad = [d for d in attempts if ended_badly(d)]
    ran = [d for d in bad if d.job.start is not None]
    return (ran or bad or list(attempts))[-1]


def _mixed(
    tops: Sequence[Diagnosis], bad: Sequence[Diagnosis], parts: Sequence[Diagnosis], coverage: Sequence[Coverage]
) -> Diagnosis:
    counts: dict[str, int] = {}
    for diagnosis in tops:
        counts[diagnosis.cause] = counts.get(diagnosis.cause, 0) + 1
    text = ", ".join(f"{count} x {cause}" for cause, count in sorted(counts.items(), key=lambda i: (-i[1], i[0])))
    owners = {d.owner for d in bad}
    weakest = min((d.strength for d in bad if d.strength), key=lambda s: s.rank, default=None)
    job = replace(
        bad[0].job,
        job_id=bad[0].job.array or bad[0].job.het or bad[0].job.job_id,
        shown_id=bad[0].job.array or bad[0].job.het or bad[0].job.shown_id,
        array_task=None,
        het_offset=None,
        state=None,
        exit=ExitInfo(meaning="each part has its own"),
    )
    first: dict[str, Diagnosis] = {}
    for diagnosis in bad:
        first.setdefault(diagnosis.cause, diagnosis)
    return Diagnosis(
        job,
        causes.ARRAY_MIXED,
        owners.pop() if len(owners) == 1 else Owner.UNKNOWN,
        weakest,
        f"The {len(tops)} parts ended differently: {text}.",
        (),
        tuple(c for d in first.values() for c in d.evidence[:3])[:MOST_EVIDENCE],
        also=tuple(
            Verdict(d.cause, d.strength or Strength.POSSIBLE, (), d.owner, d.summary, d.actions) for d in first.values()
        ),
        coverage=tuple(coverage),
        parts=tuple(parts),
        site_rules=tuple(dict.fromkeys(said for d in first.values() for said in d.site_rules)),
    )
