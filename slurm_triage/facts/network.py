"""Networks: adapters and links as the kernel sees them, transfers as programs see them."""

from __future__ import annotations

from dataclasses import replace

from slurm_triage.facts._kernel import CLOSE, Kernel, Witness
from slurm_triage.facts._logic import any_of
from slurm_triage.facts._once import once
from slurm_triage.facts.log import Log
from slurm_triage.facts.telling import Telling
from slurm_triage.model import Fact, Sign

TRANSFER = ("nccl_net_error", "mpi_transport_error")
KIN = (*TRANSFER, "nccl_remote_exit", "nccl_timeout", "nccl_system_error", "mlx5_completion_error", "gloo_timeout",
       "pmix_peer_lost", "mpi_error", "mpi_abort")  # fmt: skip
"""Families with which a program shows that its messages did not get through."""


class Network:
    """Links, adapters and failed transfers of the attempt."""

    def __init__(self, log: Log, telling: Telling, kernel: Kernel) -> None:
        self.log = log
        self.telling = telling
        self.kernel = kernel

    @once
    def link_lines(self) -> tuple[Witness, ...]:
        """Kernel lines of a link that went down or of an adapter that failed. A link that did not come back, as far as
        the log goes, and a failed adapter are lasting states."""
        return tuple(replace(w, lasting=not self._came_back(w.sign)) for w in self.kernel.of("mlx5", where=_trouble))

    @once
    def _last_up(self) -> dict[tuple[str, str | None, str], int]:
        """The last line of each port that says that its link is up."""
        up = [s for s in self.log.of("mlx5") if s.fields.get("state", "").lower() in ("up", "active")]
        return {_port(sign): sign.cite.line for sign in up}

    def _came_back(self, sign: Sign) -> bool:
        """Whether a later line of the same log says that the link is up again."""
        return _is_down(sign) and self._last_up.get(_port(sign), 0) > sign.cite.line

    @property
    def _waited(self) -> float:
        """Seconds for which the program says that it waited for other ranks before it gave up, 0 if it says nothing."""
        texts = [s.fields.get("timeout_ms") or "" for s in self.log.of("nccl_timeout", "gloo_timeout")]
        return max((int(t) / 1000 for t in texts if t.isascii() and t.isdigit()), default=0.0)

    @once
    def transfer_failed(self) -> Fact:
        """A transfer failed in the network itself (retries exceeded), as NCCL, UCX or libfabric say."""
        return self.telling.said("a transfer over the network failed after all retries", *TRANSFER)

    @once
    def felt(self) -> Fact:
        """The program's messages did not get through."""
        return self.telling.last_word("the program's messages did not get through", *KIN)

    @once
    def trouble(self) -> Fact:
        """Kernel or program."""
        link = self.kernel.seen("the kernel reports a link or adapter that failed", self.link_lines)
        weak = self.telling.said("an adapter reports a failed completion", "mlx5_completion_error")
        return any_of("the network failed under the job", link, self.transfer_failed, weak)

    @once
    def likely(self) -> Fact:
        """It likely ended the job."""
        return self.kernel.tells("a link or adapter failed while the job ran", self.link_lines, self.felt, *KIN)

    @once
    def proven(self) -> Fact:
        """A link failed in the job's time on its node shortly before a transfer failed, or it stayed down while the
        ranks waited for each other. A link that came back explains no time-out: adapters send again for many seconds.
        """
        says = "a link or adapter failed, and the program felt it"
        failed = self.telling.last_word("a transfer failed after all retries", *TRANSFER, kin=KIN)
        stayed = [w for w in self.link_lines if w.lasting]
        return any_of(
            says,
            self.kernel.proves(says, self.link_lines, failed),
            self.kernel.proves(says, stayed, self.felt, within=CLOSE + self._waited),
        )


def _port(sign: Sign) -> tuple[str, str | None, str]:
    """Log, node and name of the port that a line speaks of."""
    fields = sign.fields
    name = fields.get("dev") or f"{fields.get('ibdev', '')}/{fields.get('port', '')}"
    return sign.cite.file, sign.node, name


def _is_down(sign: Sign) -> bool:
    return sign.fields.get("state", "").lower() == "down"


def _trouble(sign: Sign) -> bool:
    fields = sign.fields
    text = fields.get("text", "")
    return (
        _is_down(sign) or "err" in fields or "compromised" in text or "Fatal error" in text or "recovery failed" in text
    )
