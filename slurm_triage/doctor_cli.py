"""`slurm-triage doctor`: what keeps it from working on this host, in plain words, with what to do."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from slurm_triage.doctor import Finding, Host

OK, TO_FIX, UNKNOWN = 0, 1, 2
Complain = Callable[[str], None]


def add_verb(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds the verb `doctor` to the command."""
    doctor = verbs.add_parser(
        "doctor",
        help="say what keeps slurm-triage from working on this host, and how to put it right",
        description="Look at this host, a compute node, the controller's or the service's, and say what keeps "
        "slurm-triage from working and how to put it right; changes nothing. Best as root. Exit status: 0 all is well, "
        "1 something has to be put right, 2 nothing wrong was found, but something could not be looked at.",
    )
    add_role(doctor)
    doctor.add_argument("--json", action="store_true", help="print JSON")


def add_role(parser: argparse.ArgumentParser) -> None:
    """Adds the option that says what this host is for."""
    parser.add_argument(
        "--role",
        choices=("node", "controller", "service"),
        action="append",
        default=[],
        help="what this host is for; may be given several times (default: what it shows)",
    )


def run(options: argparse.Namespace, complain: Complain) -> int:
    """Runs the verb; returns the exit status."""
    from slurm_triage.doctor import Host, Role, State, examine

    host = Host(roles=[Role(word) for word in options.role])
    found = list(examine(host))
    states = {finding.state for finding in found}
    status = TO_FIX if State.BAD in states else UNKNOWN if State.UNKNOWN in states else OK
    if options.json:
        print(json.dumps(_document(host, found), ensure_ascii=True, indent=2))
    else:
        for line in _lines(host, found):
            print(line)
    return status


def _document(host: Host, found: Sequence[Finding]) -> dict[str, object]:
    return {
        "schema": "slurm-triage/doctor/1",
        "host": host.name,
        "roles": sorted(role.value for role in host.roles),
        "findings": [{"state": f.state.value, "about": f.about, "what": f.what, "fix": f.fix} for f in found],
    }


def _lines(host: Host, found: Sequence[Finding]) -> list[str]:
    from slurm_triage.doctor import State
    from slurm_triage.live._command import clean

    roles = ", ".join(sorted(role.value for role in host.roles))
    lines = [f"{host.name}: {roles or 'neither node nor controller nor service (--role says otherwise)'}"]
    words = {State.OK: "ok", State.WARN: "less", State.BAD: "BAD", State.UNKNOWN: "?"}
    for finding in found:
        lines.append(f"  {words[finding.state]:4}  {clean(finding.what, 600)}")
        if finding.fix:
            lines.append(f"        -> {clean(finding.fix, 600)}")
    count = {state: sum(finding.state is state for finding in found) for state in State}
    said = [
        f"{count[State.BAD]} to put right" if count[State.BAD] else "nothing to put right",
        *([f"{count[State.WARN]} could be better"] if count[State.WARN] else []),
        *([f"{count[State.UNKNOWN]} could not be looked at"] if count[State.UNKNOWN] else []),
    ]
    return [*lines, ", ".join(said)]
