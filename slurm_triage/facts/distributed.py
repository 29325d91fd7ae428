"""Ranks that wait for each other: collectives, start barriers, connections. Most of it echoes a failure elsewhere."""

from __future__ import annotations

from slurm_triage import signals
from slurm_triage.facts._logic import any_of, false, true, unknown
from slurm_triage.facts._once import once
from slurm_triage.facts.exits import Exits
from slurm_triage.facts.log import Log
from slurm_triage.facts.telling import Telling
from slurm_triage.model import Fact

CRASH = (signals.SIGSEGV, signals.SIGBUS, signals.SIGILL, signals.SIGFPE)
CRASH_WORDS = ("sigsegv_handler", "sigbus_text", "sigill_text", "python_fatal_signal")


class Distributed:
    """What the ranks say of each other."""

    def __init__(self, log: Log, exits: Exits, telling: Telling) -> None:
        self.log = log
        self.exits = exits
        self.telling = telling

    @once
    def crashed_first(self) -> Fact:
        """A process crashed: what the others say of a lost peer or a late collective follows from it."""
        says = "a process of the job crashed"
        words = self.log.of(*CRASH_WORDS)
        died = self.exits.killed_by(*CRASH)
        if words:
            return true(says, words[:2])
        return died if died.holds else unknown(says, "no crash was seen", self.log.how)

    @once
    def missing_ranks(self) -> Fact:
        """A start barrier counted fewer ranks than it waited for."""
        says = "a start barrier counted fewer ranks than it waited for"
        short = []
        for sign in self.log.of("store_barrier_timeout", "rendezvous_timeout"):
            have = sign.fields.get("joined") or sign.fields.get("worker_count") or ""
            want = sign.fields.get("world_size") or ""
            if have.isdigit() and want.isdigit() and int(have) < int(want):
                short.append(sign)
        return self.telling.given(says, short)

    @once
    def never_started(self) -> Fact:
        """Slurm's own words that tasks of the step were not launched."""
        says = "Slurm says that tasks of the step were not launched"
        lines = self.log.of("srun_aborted_before_launch", "srun_launch_failed")
        if lines:
            return true(says, lines)
        records = self.exits.records
        told = [info for info in records.infos if info.step != "batch"]
        steps = {info.step for info in told} | {step.step for step in self.exits.accounting.app_steps()}
        if told and all(records.every_end_known(step) for step in steps):
            return false(says, "every task of the job's steps is known to have started, and to have ended", told)
        return unknown(
            says, "whether all ranks were started was not seen", "compare NTasks of the step with the ranks in the log"
        )

    @once
    def lost_peer(self) -> Fact:
        """A connection to another rank broke."""
        return self.telling.said(
            "a connection to another rank broke", "nccl_remote_exit", "pmix_peer_lost", "mpi_transport_canceled"
        )

    @once
    def late_collective(self) -> Fact:
        """A collective operation did not finish in time, or the ranks were in different ones."""
        return any_of(
            "a collective operation did not finish on all ranks",
            self.telling.said("a collective timed out", "nccl_timeout", "gloo_timeout"),
            self.ranks_disagree,
        )

    @once
    def ranks_disagree(self) -> Fact:
        """The ranks were in different collectives."""
        return self.telling.said("the ranks were in different collectives", "nccl_mismatch")
