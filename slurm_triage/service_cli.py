"""`slurm-triage service`: the service that watches accounting, one round of it, and how it stands."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from slurm_triage.service.config import Settings

OK, FAILED, UNUSABLE = 0, 1, 2
Complain = Callable[[str], None]


def add_verb(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds the verb `service` to the command."""
    service = verbs.add_parser(
        "service",
        help="watch accounting for jobs that ended badly and record why, in the history",
        description="Watch accounting for jobs that ended badly, diagnose them and record the diagnoses in the "
        "history. Needs nothing on the nodes, and no privilege but to see all jobs.",
    )
    actions = service.add_subparsers(dest="action", required=True, metavar="ACTION")
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument(
        "--config", metavar="FILE", type=Path, help="settings (default: /etc/slurm-triage/service.toml, if it is there)"
    )
    actions.add_parser(
        "run",
        parents=[common],
        help="sweep every few minutes until told to stop",
        description="Sweep every few minutes until SIGTERM or SIGINT. Exit status: 0 it was told to stop, 2 the "
        "settings cannot be used.",
    )
    actions.add_parser(
        "sweep",
        parents=[common],
        help="sweep once, for cron and timers",
        description="Sweep once. Exit status: 0 it was done, 1 it could not be done now (the next sweep does it), 2 "
        "the settings cannot be used.",
    )
    status = actions.add_parser(
        "status",
        parents=[common],
        help="say how the service stands",
        description="Say how the service stands, from its ledger; changes nothing. Exit status: 0 it is up to date, 1 "
        "it is behind or has never swept, 2 the settings or the ledger cannot be used.",
    )
    status.add_argument("--json", action="store_true", help="print JSON")


def run(options: argparse.Namespace, complain: Complain) -> int:
    """Runs the verb; returns the exit status."""
    from slurm_triage.log import Log
    from slurm_triage.service.config import ConfigError, load
    from slurm_triage.service.knowledge import known
    from slurm_triage.service.ledger import LedgerError
    from slurm_triage.service.loop import Service, StartError

    status = options.action == "status"
    log = Log((lambda _: None) if status else None)
    site = known(log)  # before the settings, which may name causes of the site
    try:
        settings = load(options.config)
        if status:
            return _status(settings, as_json=options.json)
    except (ConfigError, LedgerError) as error:
        complain(str(error))
        return UNUSABLE
    service = Service(settings, log, knowledge=site)
    try:
        if options.action == "sweep":
            return OK if service.once() else FAILED
        service.run()
    except StartError as error:
        complain(f"{error}.")
        return UNUSABLE
    finally:
        service.close()
    return OK


def _status(settings: Settings, *, as_json: bool) -> int:
    from slurm_triage.service.ledger import FILE, load

    ledger = load(settings.state / FILE)
    now = time.time()
    lag = None if ledger.swept is None else max(0.0, now - ledger.swept)
    ahead = ledger.swept is not None and ledger.swept > now + 60
    good = lag is not None and lag < 3 * settings.interval and not ahead
    causes = {k.removeprefix("cause:"): n for k, n in ledger.counts.most_common() if k.startswith("cause:")}
    if as_json:
        state = {"lag_s": lag, "up_to_date": good, "waiting": len(ledger.waiting), "bad": ledger.bad, "causes": causes}
        state |= {"told": ledger.told, "texts": ledger.texts, "knowledge": ledger.knowledge or None}
        print(json.dumps({"schema": "slurm-triage/service-status/1", **state, "counts": dict(ledger.counts)}))
        return OK if good else FAILED
    if lag is None:
        print("never swept")
    elif ahead:
        print("wrong: the last sweep lies in the future, so the clock was or is wrong")
    else:
        print(f"{'up to date' if good else 'behind'}: last sweep {lag:.0f} s ago, {len(ledger.waiting)} jobs wait")
    print(f"  sweeps {ledger.counts['sweeps']}, failed {ledger.counts['failures']}, amended {ledger.counts['amended']}")
    if ledger.texts:
        texts = ", ".join(f"{number} {state}" for state, number in ledger.texts.items())
        print(f"  files for users: {texts}; jobs that nodes told of and that are not judged yet: {ledger.told}")
    _knowledge(ledger.knowledge)
    for cause, number in causes.items():
        print(f"  {number:6} {cause}")
    for job, why in list(ledger.bad.items())[-5:]:
        print(f"  job {job} could not be judged: {why}")
    return OK if good else FAILED


def _knowledge(known: Mapping[str, Any]) -> None:
    """What the site adds, as the service read it when it started."""
    if not known:
        return
    counts = ", ".join(f"{known.get(what, 0)} {what}" for what in ("signatures", "causes", "rules"))
    print(f"  knowledge of this site: {counts} from {known.get('folder')}")
    for problem in known.get("problems", ()):
        print(f"    not used: {problem}")
