"""What accounting says of the attempt: its state, its steps, its times.

Accounting that was asked inside a hook is not final (recorded on Slurm 22.05 to 26.05: seconds to a minute too early):
what it says counts, what it does not say proves nothing.

Where accounting has no final record (slurmdbd down, asked too early), what slurmctld remembers of the job stands in for
it as the last record. It has no steps.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import TypeVar

from slurm_triage.attempts import Attempt
from slurm_triage.facts._logic import false, true, unknown
from slurm_triage.facts._once import once
from slurm_triage.model import Cite, ControllerJob, Fact, HookEnv, JobRecord, ShownExit, StepInfo, StepRecord
from slurm_triage.sources.scontrol_config import seconds

T = TypeVar("T")

HOW = "read the final record: sacct -D -j {id} -P -o JobIDRaw,State,ExitCode,DerivedExitCode,Start,End,Reason"
NOT_FINAL = {
    "PENDING", "RUNNING", "COMPLETING", "CONFIGURING", "SUSPENDED", "RESIZING", "REQUEUED", "REQUEUE_HOLD",
    "REQUEUE_FED", "SPECIAL_EXIT", "STOPPED", "SIGNALING", "STAGE_OUT", "RESV_DEL_HOLD",
}  # fmt: skip
"""State words of jobs that have not ended, or that wait for another attempt (squeue(1), JOB STATE CODES)."""


class Accounting:
    """Accounting (and the controller's state word) of one attempt."""

    def __init__(self, attempt: Attempt) -> None:
        self.attempt = attempt
        self.steps = _merge_steps(attempt.steps)
        self.all_views = tuple(e for e in attempt.events if isinstance(e, ControllerJob))
        self.views = tuple(v for v in self.all_views if _same_attempt(v, attempt))
        self.hooks = tuple(e for e in attempt.events if isinstance(e, HookEnv))
        self.records = self._records()

    def _records(self) -> tuple[JobRecord, ...]:
        """Accounting's records, most trustworthy first, and the controller's view as the last one where it helps.

        It helps where accounting has no record at all, or no final one and the controller saw the end.
        """
        own = self.attempt.records
        if any(_is_final(record) for record in own):
            return own
        seen = [record_of(view) for view in self.views]
        ended = [record for record in seen if record.final]
        if ended:
            return (*own, ended[-1])
        return own or tuple(seen[-1:])

    @once
    def how(self) -> str:
        """How to get the final record."""
        return HOW.format(id=self.attempt.job_id or "JOBID")

    def first(self, get: Callable[[JobRecord], T | None]) -> T | None:
        """The first value that a record gives, most trustworthy record first."""
        return next((value for record in self.records if (value := get(record)) is not None), None)

    @once
    def final(self) -> JobRecord | None:
        """The final job record, if one was read."""
        return next((r for r in self.records if _is_final(r)), None)

    @once
    def states(self) -> list[tuple[str, Cite]]:
        """Every state word of the attempt with its line: accounting and the controller's final view."""
        found = [(r.state, r.cite) for r in self.records if r.state]
        found += [(flag, r.cite) for r in self.records for flag in r.flags]
        for view in self.views:
            word = _state_word(view)
            if word:
                found.append((word, view.cites.get("JobState", view.cite)))
        return found

    @once
    def state(self) -> str | None:
        """The best known state word."""
        final = self.final
        if final is not None:
            return final.state
        ended = [word for word, _ in self.states if word not in NOT_FINAL]
        return ended[0] if ended else next((word for word, _ in self.states), None)

    def state_is(self, *words: str, says: str | None = None) -> Fact:
        """Whether Slurm gives the attempt one of these states. False only by a final record that says another."""
        text = says or f"Slurm's state of the job is {' or '.join(words)}"
        cites = [cite for word, cite in self.states if word in words]
        if cites:
            return true(text, cites)
        final = self.final
        if final is not None:
            return false(text, f"accounting says {final.state}", [final])
        return unknown(text, "the final state was not seen in accounting", self.how)

    @once
    def ended_well(self) -> Fact:
        """The state is COMPLETED."""
        return self.state_is("COMPLETED", says="Slurm's state of the job is COMPLETED")

    @once
    def steps_known(self) -> bool:
        """Whether the final record and its step lines were read."""
        return self.final is not None and any(s.final is not False for s in self.steps)

    def app_steps(self) -> tuple[StepRecord, ...]:
        """Steps started by srun (0, 1, ...): not batch, not extern."""
        return tuple(s for s in self.steps if s.step and s.step[:1].isdigit())

    @once
    def last_app_step(self) -> str | None:
        """The name of the srun step started last, None if there is none."""
        steps = self.app_steps()
        last = max(steps, key=lambda s: (s.start.lo if s.start else 0.0, _step_order(s.step or "")), default=None)
        return last.step if last is not None else None

    def step(self, name: str) -> StepRecord | None:
        """The line of one step."""
        return next((s for s in self.steps if s.step == name), None)

    def view_values(self, key: str) -> Iterable[tuple[str, Cite]]:
        """Every value that the controller printed for `key`, with its line."""
        for view in self.views:
            if key in view.values:
                yield view.values[key], view.cites.get(key, view.cite)

    @once
    def owner_names(self) -> frozenset[str]:
        """User name and uid of the job's owner, as far as known."""
        names = {str(v) for r in self.records for v in (r.user, r.uid) if v is not None and v != ""}
        for hook in self.hooks:
            names.update(v for k in ("SLURM_JOB_USER", "SLURM_JOB_UID") if (v := hook.values.get(k)))
        names.update(str(e.uid) for e in self.attempt.events if isinstance(e, StepInfo) and e.uid is not None)
        for value, _ in self.view_values("UserId"):
            name, _, rest = value.partition("(")
            names.update(n for n in (name, rest.rstrip(")")) if n)
        return frozenset(names)


def _is_final(record: JobRecord) -> bool:
    return record.final is not False and bool(record.state) and record.state not in NOT_FINAL


def _state_word(view: ControllerJob) -> str:
    """The base state that the controller prints, without flags; empty if it prints none."""
    return view.values.get("JobState", "").split(",")[0].split("+")[0].strip()


def record_of(view: ControllerJob) -> JobRecord:
    """What the controller says of the job, as a record of accounting would say it; cites its `JobState=` line.

    `scontrol show job` prints exit codes uncut as rc:sig (recorded on Slurm 22.05.8, 24.11.5 and 26.05.5: 137:0, 0:9,
    0:125). While the job has not ended ExitCode is 0:0 and EndTime a forecast: neither is taken then. It has ended when
    JobState is a final state, which slurmctld gives a job only with its end.
    """
    state = _state_word(view) or None
    final = state is not None and state not in NOT_FINAL and view.values.get("EndTime") != "Unknown"

    def value(key: str) -> str | None:
        text = view.values.get(key, "").strip()
        return text if text and text not in ("(null)", "N/A", "None", "Unknown") else None

    user = re.fullmatch(r"(.*)\((\d{1,10})\)", value("UserId") or "", re.DOTALL)
    nodes = value("NumNodes") or ""
    restarts = value("Restarts") or ""
    return JobRecord(
        view.cites.get("JobState", view.cite),
        view.job,
        shown_id=_shown_id(view),
        array_id=value("ArrayJobId"),
        array_task=value("ArrayTaskId"),
        het_id=value("HetJobId"),
        het_offset=value("HetJobOffset"),
        name=value("JobName"),
        user=user[1] if user else value("UserId"),
        uid=int(user[2]) if user else None,
        account=value("Account"),
        partition=value("Partition"),
        qos=value("QOS"),
        state=state,
        exit=_shown_exit(view, "ExitCode") if final else None,
        derived=_shown_exit(view, "DerivedExitCode") if final else None,
        submit=view.submit,
        start=view.start,
        started=True if view.start is not None and state != "PENDING" else None,
        end=view.end if final else None,
        elapsed=seconds(value("RunTime") or ""),
        time_limit=seconds(value("TimeLimit") or ""),
        reason=value("Reason"),
        nodes=value("NodeList"),
        n_nodes=int(nodes) if re.fullmatch(r"[0-9]{1,9}", nodes) else None,
        failed_node=value("FailedNode"),
        restarts=int(restarts) if re.fullmatch(r"[0-9]{1,9}", restarts) else None,
        work_dir=value("WorkDir"),
        stdout=value("StdOut"),
        stderr=value("StdErr"),
        final=final,
    )


def _shown_id(view: ControllerJob) -> str | None:
    """`1001_4` for an array task, `1111+1` for a het component, else the raw id."""
    for first, second, mark in (("ArrayJobId", "ArrayTaskId", "_"), ("HetJobId", "HetJobOffset", "+")):
        whole, part = view.values.get(first), view.values.get(second, "")
        if whole and re.fullmatch(r"[0-9]{1,10}", part):
            return f"{whole}{mark}{part}"
    return view.job


def _shown_exit(view: ControllerJob, key: str) -> ShownExit | None:
    match = re.fullmatch(r"([0-9]{1,3}):([0-9]{1,3})", view.values.get(key, "").strip())
    return ShownExit(int(match[1]), int(match[2])) if match else None


def _same_attempt(view: ControllerJob, attempt: Attempt) -> bool:
    """A view of the job while it waits for its next attempt says nothing of this one's end."""
    return view.start is None or attempt.start is None or abs(view.start.lo - attempt.start.lo) <= 1.0


def _merge_steps(steps: Iterable[StepRecord]) -> tuple[StepRecord, ...]:
    """One record per step: the most trustworthy one (they come in that order), in the order of the steps."""
    best: dict[str, StepRecord] = {}
    for step in steps:
        name = step.step or ""
        known = best.get(name)
        if known is None or (known.exit is None and step.exit is not None):
            best[name] = step
    return tuple(best[name] for name in sorted(best, key=_step_order))


def _step_order(name: str) -> tuple[int, int, str]:
    order = {"batch": 0, "extern": 1, "interactive": 2}
    if name in order:
        return (0, order[name], "")
    return (1, int(name[:9]) if name.isascii() and name.isdigit() else 0, name)
