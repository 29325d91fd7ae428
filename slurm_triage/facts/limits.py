"""Limits in force for the job: KillWait, GraceTime, PreemptMode, time limit. From the evidence, never a default."""

from __future__ import annotations

import math
import re

from slurm_triage import signals
from slurm_triage.attempts import Attempt
from slurm_triage.facts._logic import all_of, false, true, unknown
from slurm_triage.facts.accounting import Accounting
from slurm_triage.model import Cite, Fact, Setting, Sign
from slurm_triage.sources.scontrol_config import seconds

DEFAULT_LEAD = 60
"""Seconds ahead of the limit for --signal without @ (sbatch(1))."""
EARLY = 75.0
"""Seconds by which slurmctld may send it early: it looks once a minute."""


class Limits:
    """Settings of the cluster, of the job's partition and of its QOS."""

    def __init__(self, attempt: Attempt, accounting: Accounting) -> None:
        self.attempt = attempt
        self.accounting = accounting
        self.settings = attempt.settings
        self.partition = accounting.first(lambda r: r.partition) or self._hook("SLURM_JOB_PARTITION")
        self.qos = accounting.first(lambda r: r.qos) or self._hook("SLURM_JOB_QOS")

    def _hook(self, key: str) -> str | None:
        return next((v for h in self.accounting.hooks if (v := h.values.get(key))), None)

    def setting(self, scope: str, key: str) -> Setting | None:
        """The setting of the cluster, or of the job's own partition or QOS."""
        owner = {"cluster": "", "partition": self.partition, "qos": self.qos}.get(scope)
        if owner is None:
            return None
        return next((s for s in self.settings if s.scope == scope and s.key == key and s.owner == owner), None)

    @property
    def kill_wait(self) -> tuple[float, Cite] | None:
        """Seconds from SIGTERM to SIGKILL, with the line that says so. srun prints KillWait + 2 when it waits."""
        found = self.setting("cluster", "KillWait")
        if found is not None and (value := seconds(found.value)) is not None:
            return value, found.cite
        for event in self.attempt.events:
            if isinstance(event, Sign) and event.id == "srun_aborted":
                text = event.fields.get("seconds", "")
                if text.isascii() and text.isdigit() and int(text) >= 2:
                    return float(int(text) - 2), event.cite
        return None

    @property
    def preempted_by_qos(self) -> bool | None:
        """True for PreemptType=preempt/qos, False for partition priority, None if not known."""
        found = self.setting("cluster", "PreemptType")
        return None if found is None else "qos" in found.value.lower()

    @property
    def grace_time(self) -> tuple[float, Cite] | None:
        """GraceTime of the partition (preempt/partition_prio) or of the QOS (preempt/qos), in seconds."""
        by_qos = self.preempted_by_qos
        if by_qos is None:
            return None
        found = self.setting("qos" if by_qos else "partition", "GraceTime")
        value = seconds(found.value) if found is not None else None
        return (value, found.cite) if found is not None and value is not None else None

    @property
    def preempt_mode(self) -> tuple[str, Cite] | None:
        """How a job of this partition or QOS is preempted: CANCEL, REQUEUE, SUSPEND, OFF."""
        for scope in ("qos", "partition", "cluster"):
            if scope == "qos" and not self.preempted_by_qos:
                continue
            found = self.setting(scope, "PreemptMode")
            if found is not None and found.value and found.value.lower() != "cluster":
                return found.value.upper(), found.cite
        return None

    @property
    def cannot_be_preempted(self) -> Cite | None:
        """The line that says so: preemption is off for the cluster, or for the job's partition."""
        cluster = self.setting("cluster", "PreemptMode")
        if cluster is not None and cluster.value.upper() == "OFF":
            return cluster.cite
        if self.preempted_by_qos is False:
            partition = self.setting("partition", "PreemptMode")
            if partition is not None and partition.value.upper() == "OFF":
                return partition.cite
        return None

    @property
    def suspends(self) -> bool:
        """Whether the cluster suspends jobs (PreemptMode SUSPEND or GANG)."""
        found = self.setting("cluster", "PreemptMode")
        return found is not None and any(w in found.value.upper() for w in ("SUSPEND", "GANG"))

    @property
    def time_limit(self) -> float | None:
        """Seconds, inf for UNLIMITED."""
        limit = self.accounting.first(lambda r: r.time_limit)
        if limit is None:
            limit = next(
                (s for v, _ in self.accounting.view_values("TimeLimit") if (s := seconds(v)) is not None), None
            )
        return limit

    @property
    def warning_signal(self) -> tuple[int, float, Cite] | None:
        """The signal asked for with --signal on the command line, and how many seconds ahead of the limit.

        None if accounting did not keep the line (it does from 23.02 on).
        """
        for record in self.accounting.records:
            match = re.search(r"--signal[= ](?:[RB]+:)?([A-Za-z0-9]+)(?:@(\d{1,9}))?", record.submit_line or "")
            number = signals.number_of(match[1]) if match else None
            if match and number:
                return number, float(match[2] or DEFAULT_LEAD), record.cite
        return None

    def died_of_warning(self, died: Fact) -> Fact:
        """The signal that killed it is the one that --signal asked for."""
        says = "the signal is the one that --signal asked for"
        wanted = self.warning_signal
        if wanted is None:
            return unknown(says, "the submission's --signal was not seen", "look at the #SBATCH lines of the script")
        return all_of(says, died, true("--signal asks for it", [wanted[2]]), self.warning_due)

    @property
    def warning_due(self) -> Fact:
        """Whether the job ended when the signal of --signal was due: so many seconds ahead of the limit, up to a
        minute early."""
        says = "the job ended when the signal was due"
        wanted = self.warning_signal
        if wanted is None:
            return unknown(says, "the submission's --signal was not seen", "look at the #SBATCH lines of the script")
        _, lead, cite = wanted
        elapsed, limit = self.accounting.first(lambda r: r.elapsed), self.time_limit
        if elapsed is None or limit is None or math.isinf(limit):
            return unknown(says, "the run time or the time limit was not seen", self.accounting.how)
        if elapsed >= limit - lead - EARLY:
            return true(says, [cite])
        return false(says, "it ended long before the signal was due", [cite])
