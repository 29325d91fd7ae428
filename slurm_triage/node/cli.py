"""`slurm-triage agent`, also as a file of its own (`slurm-triage-agent`): one activation, and how it stands."""

from __future__ import annotations

import argparse
import json
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slurm_triage import __version__

if TYPE_CHECKING:
    from slurm_triage.node.config import Settings

OK, BEHIND, UNUSABLE = 0, 1, 2
LATE = 900.0
"""Seconds that evidence may lie in the outbox before `status` calls it behind."""
Complain = Callable[[str], None]


def add_actions(parser: argparse.ArgumentParser) -> None:
    """Adds the actions to a parser."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument(
        "--config", metavar="FILE", type=Path, help="settings (default: /etc/slurm-triage/agent.toml, if it is there)"
    )
    run_ = actions.add_parser(
        "run",
        parents=[common],
        help="collect, hand over, write diagnoses, and end",
        description="Take what the witnesses of this host left in the spool, collect what this host knows of these "
        "jobs, hand it to the service, write the diagnoses beside their output, and end. What cannot be done now is "
        "done the next time. Exit status: 0 it was done or kept, 2 the settings or the state cannot be used.",
    )
    run_.add_argument("--watch", action="store_true", help="stay and look again, for hosts without systemd")
    status = actions.add_parser(
        "status",
        parents=[common],
        help="say what waits on this host",
        description="Say what waits on this host; changes nothing. Exit status: 0 nothing is late, 1 evidence waits "
        "for more than 15 minutes or a diagnosis could not be written, 2 the settings or the state cannot be used.",
    )
    status.add_argument("--json", action="store_true", help="print JSON")


def add_verb(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds the verb `agent` to the command `slurm-triage`."""
    add_actions(
        verbs.add_parser(
            "agent",
            help="on nodes: bring evidence to the service and diagnoses to users",
            description="The agent of a node: brings evidence of jobs that ended badly to the service, and diagnoses "
            "to users. Runs as root.",
        )
    )


def run(options: argparse.Namespace, complain: Complain) -> int:
    """Runs the action; returns the exit status."""
    from slurm_triage.node.agent import AnotherAgent
    from slurm_triage.node.config import ConfigError, load
    from slurm_triage.node.drawer import DrawerError
    from slurm_triage.transport.auth import AuthError

    try:
        settings = load(options.config)
        if options.action == "status":
            return _status(settings, as_json=options.json)
        return _run(settings, watch=options.watch)
    except AnotherAgent:
        return OK  # what is there to do is done by it
    except (ConfigError, DrawerError, AuthError) as error:
        complain(f"{error}.")
        return UNUSABLE


def _run(settings: Settings, *, watch: bool) -> int:
    from slurm_triage.log import Log
    from slurm_triage.node.agent import Agent
    from slurm_triage.node.gentle import step_back

    stopped = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopped.set())
    step_back()
    one = Agent(settings, Log(), stopped.is_set)
    if watch:
        one.watch()
    else:
        one.run()
    return OK


def _status(settings: Settings, *, as_json: bool) -> int:
    from slurm_triage.node.agent import OUTBOX, TARGETS
    from slurm_triage.node.drawer import Drawer
    from slurm_triage.node.target import read

    outbox = Drawer(f"{settings.state}/outbox", OUTBOX)
    targets = Drawer(f"{settings.state}/targets", TARGETS)
    waiting = outbox.entries()
    oldest = max((time.time() - entry.mtime for entry in waiting), default=0.0)
    listed = [read(data) for entry in targets.entries() if (data := targets.read(entry.name)) is not None]
    known = [target for target in listed if target is not None]
    open_ = sum(not target.closed for target in known)
    trouble = {target.job.job: target.trouble for target in known if target.trouble}
    good = oldest < LATE and not trouble
    if as_json:
        state: dict[str, Any] = {
            "outbox": len(waiting),
            "oldest_s": round(oldest, 1),
            "open": open_,
            "trouble": trouble,
        }
        print(json.dumps({"schema": "slurm-triage/agent-status/1", "good": good, **state}))
        return OK if good else BEHIND
    print(f"{'good' if good else 'behind'}: {len(waiting)} jobs wait to be sent, {open_} for their diagnosis")
    if waiting:
        print(
            f"  the oldest waits for {oldest:.0f} s; servers: {', '.join(settings.servers) or 'none in the settings'}"
        )
    for job, why in list(trouble.items())[-5:]:
        print(f"  job {job}: its diagnosis could not be written: {why}")
    return OK if good else BEHIND


def main(argv: Sequence[str] | None = None) -> int:
    """The command `slurm-triage-agent`; returns the exit status."""
    parser = argparse.ArgumentParser(prog="slurm-triage-agent", description="The agent of slurm-triage on a node.")
    parser.add_argument("--version", action="version", version=f"slurm-triage {__version__}")
    add_actions(parser)
    options = parser.parse_args(argv)
    return run(options, lambda text: print(f"slurm-triage-agent: {text}", file=sys.stderr))
