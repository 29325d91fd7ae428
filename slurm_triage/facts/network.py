"""Networks: adapters and links as the kernel sees them, transfers as programs see them."""

from __future__ import annotations

from functools import cached_property

from slurm_triage.attempts import Attempt
from slurm_triage.facts._kernel import Kernel, Witness
from slurm_triage.facts._logic import any_of
from slurm_triage.facts.log import Log
from slurm_triage.facts.telling import Telling
from slurm_triage.model import Fact, Sign

TRANSFER = ("nccl_net_error", "mpi_transport_error")
KIN = (*TRANSFER, "nccl_remote_exit", "nccl_timeout", "nccl_system_error", "mlx5_completion_error", "gloo_timeout",
       "pmix_peer_lost", "mpi_error", "mpi_abort")  # fmt: skip
"""Families with which a program shows that its messages did not get through."""


class Network:
    """Links, adapters and failed transfers of the attempt."""

    def __init__(self, attempt: Attempt, log: Log, telling: Telling, kernel: Kernel) -> None:
        self.attempt = attempt
        self.log = log
        self.telling = telling
        self.kernel = kernel

    @cached_property
    def link_lines(self) -> tuple[Witness, ...]:
        """Kernel lines of a link that went down or of an adapter that failed."""
        return self.kernel.of("mlx5", where=_trouble)

    @cached_property
    def transfer_failed(self) -> Fact:
        """A transfer failed in the network itself (retries exceeded), as NCCL, UCX or libfabric say."""
        return self.telling.said("a transfer over the network failed after all retries", *TRANSFER)

    @cached_property
    def felt(self) -> Fact:
        """The program's messages did not get through."""
        return self.telling.last_word("the program's messages did not get through", *KIN)

    @cached_property
    def trouble(self) -> Fact:
        """Kernel or program."""
        link = self.kernel.seen("the kernel reports a link or adapter that failed", self.link_lines)
        weak = self.telling.said("an adapter reports a failed completion", "mlx5_completion_error")
        return any_of("the network failed under the job", link, self.transfer_failed, weak)

    @cached_property
    def likely(self) -> Fact:
        """It likely ended the job."""
        return self.kernel.tells("a link or adapter failed while the job ran", self.link_lines, self.felt, *KIN)

    @cached_property
    def proven(self) -> Fact:
        """A link failed in the job's time on its node, and its messages did not get through."""
        return self.kernel.proves("a link or adapter failed, and the program felt it", self.link_lines, self.felt)


def _trouble(sign: Sign) -> bool:
    fields = sign.fields
    text = fields.get("text", "")
    down = fields.get("state", "").lower() == "down"
    return down or "err" in fields or "compromised" in text or "Fatal error" in text or "recovery failed" in text
