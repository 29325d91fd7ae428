"""What keeps slurm-triage from working on this host, and how to put it right.

A check is a function that takes a `Host` and yields findings; it looks and changes nothing. One file a place: `slurm`
(Slurm itself), `witnesses` (hooks, plugin, spool), `agent`, `service`. `host` is what all of them look at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from slurm_triage.doctor.finding import Finding, State
from slurm_triage.doctor.host import Host, Role

Check = Callable[[Host], Iterable[Finding]]

__all__ = ["Check", "Finding", "Host", "Role", "State", "checks", "examine"]


def checks() -> list[Check]:
    """All checks, in the order in which they are best read."""
    from slurm_triage.doctor import agent, service, slurm, witnesses

    return [*slurm.CHECKS, *witnesses.CHECKS, *agent.CHECKS, *service.CHECKS]


def examine(host: Host) -> Iterator[Finding]:
    """What all checks find."""
    for check in checks():
        try:
            yield from check(host)
        except Exception as error:  # one check that breaks must not hide what the others find
            name = check.__name__
            yield Finding(State.UNKNOWN, name, f"{name}: could not be looked at: {type(error).__name__}: {error}")
