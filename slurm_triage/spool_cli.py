"""`slurm-triage spool`: how the spool stands, and its records as evidence folders."""

from __future__ import annotations

import argparse
import json
import pwd
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from slurm_triage.spool import PLACES, NoSpool, Spool, SpoolError, State, usual_owner
from slurm_triage.spool_folders import keep

ABANDONED = 86400.0
"""Seconds without a write after which `collect` takes over what lies in tmp/."""

OK, UNUSABLE, NOTHING = 0, 2, 3
Complain = Callable[[str], None]


def add_verb(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds the verb `spool` to the command."""
    spool = verbs.add_parser(
        "spool",
        help="show what the hooks of a node or of the controller left in their spool, or make evidence folders of it",
        description="What the SPANK plugin, Epilog and EpilogSlurmctld left in their spool on this host.",
    )
    actions = spool.add_subparsers(dest="action", required=True, metavar="ACTION")
    where = argparse.ArgumentParser(add_help=False)
    where.add_argument(
        "--spool",
        metavar="DIR",
        action="append",
        default=[],
        help=f"a spool; may be given several times (default: those that exist of {', '.join(PLACES)})",
    )
    where.add_argument(
        "--owner", metavar="USER", help="whom the spool belongs to (default: root, you, or the user slurm)"
    )
    status = actions.add_parser(
        "status",
        parents=[where],
        help="say what waits, what was dropped and what is wrong",
        description="Say what waits in the spool, what was dropped and what is wrong; changes nothing. Exit status: 0 "
        "it was looked at, 2 bad usage or a spool that cannot be used, 3 there is no spool.",
    )
    status.add_argument("--json", action="store_true", help="print JSON")
    collect = actions.add_parser(
        "collect",
        parents=[where],
        help="take what waits and write one evidence folder per attempt of a job",
        description="Take the records that wait and write one evidence folder per attempt of a job. Exit status: 0 "
        "evidence was written, 2 bad usage, a spool that cannot be used or evidence that cannot be written, 3 nothing "
        "waits or there is no spool.",
    )
    collect.add_argument(
        "--to", metavar="DIR", type=Path, required=True, help="where the folders go; made if it is missing"
    )
    collect.add_argument("--job", metavar="ID", help="only this job, by its raw id")


def run(options: argparse.Namespace, complain: Complain) -> int:
    """Runs `spool status` or `spool collect`; returns the exit status."""
    if options.action == "collect" and options.job is not None and not re.fullmatch(r"[0-9]{1,10}", options.job):
        complain(
            f"{options.job}: not a raw job id, which is a number. Records lie under the raw ids of tasks and parts."
        )
        return UNUSABLE
    with ExitStack() as stack:
        try:
            spools = [stack.enter_context(spool) for spool in _opened(options)]
            if not spools:
                complain(f"there is no spool on this host (none of {', '.join(PLACES)}). Name one with --spool DIR.")
                return NOTHING
            return _status(spools, options) if options.action == "status" else _collect(spools, options, complain)
        except SpoolError as error:
            complain(f"{error}.")
            return UNUSABLE


def _opened(options: argparse.Namespace) -> Iterator[Spool]:
    owner: int | None = None
    if options.owner is not None:
        try:
            owner = int(options.owner) if options.owner.isdecimal() else pwd.getpwnam(options.owner).pw_uid
        except KeyError:
            raise SpoolError(f"{options.owner}: there is no such user") from None
    for path in options.spool or PLACES:
        try:
            yield Spool(path, usual_owner(path) if owner is None else owner)
        except NoSpool:
            if options.spool:
                raise


# ------------------------------------------------------------------------------------------------ status


def _status(spools: list[Spool], options: argparse.Namespace) -> int:
    states = [(spool, spool.state()) for spool in spools]
    if options.json:
        print(json.dumps({"schema": "slurm-triage/spool-status/1", "spools": [_object(*pair) for pair in states]}))
        return OK
    print(_verdict([state for _, state in states]))
    for spool, state in states:
        print(f"\n{spool.path}")
        for line in _lines(state):
            print(f"  {line}")
    return OK


def _verdict(states: list[State]) -> str:
    waiting = [state.folders["new"] for state in states]
    files = sum(folder.files for folder in waiting)
    text = "nothing waits"
    if files:
        oldest = _span(max(folder.oldest for folder in waiting if folder.oldest is not None))
        jobs = len(frozenset[str]().union(*(state.jobs for state in states)))
        text = f"{_some(files, 'record')} of {_some(jobs, 'job')} wait{'s' if files == 1 else ''}, oldest {oldest}"
    lost = sum(sum(state.dropped.values()) for state in states)
    if lost:
        text += f"; {_some(lost, 'record')} dropped so far"
    if any(state.disabled for state in states):
        text += "; switched off"
    return text


def _lines(state: State) -> Iterator[str]:
    for name, folder in state.folders.items():
        if folder.files:
            held = f"{_some(folder.files, 'file'):>11}  {_size(folder.size):>9}"
            yield f"{name:4}  {held}  oldest {_span(folder.oldest or 0)}"
    if not any(folder.files for folder in state.folders.values()):
        yield "empty"
    for title, numbers in (("dropped", state.dropped), ("refused", state.refused)):
        if numbers:
            yield f"{title} so far: {', '.join(f'{count} {what}' for what, count in sorted(numbers.items()))}"
    if state.disabled:
        yield "switched off: nobody writes while the file `disabled` exists"
    for problem in state.problems:
        yield f"problem: {problem}"


def _object(spool: Spool, state: State) -> dict[str, Any]:
    folders = {
        name: {"files": folder.files, "bytes": folder.size, "oldest_s": folder.oldest}
        for name, folder in state.folders.items()
    }
    return {
        "path": spool.path,
        "owner": spool.owner,
        "waiting": state.folders["new"].files,
        "jobs": len(state.jobs),
        "folders": folders,
        "dropped": dict(state.dropped),
        "refused": dict(state.refused),
        "disabled": state.disabled,
        "problems": list(state.problems),
    }


def _some(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def _size(size: int) -> str:
    return f"{size} B" if size < 1024 else f"{size / 1024:.1f} KiB" if size < 1 << 20 else f"{size / (1 << 20):.1f} MiB"


def _span(seconds: float) -> str:
    for unit, length in (("days", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.0f} s"


# ------------------------------------------------------------------------------------------------ collect


def _collect(spools: list[Spool], options: argparse.Namespace, complain: Complain) -> int:
    for spool in spools:
        spool.recover(ABANDONED)
    status = _take_all(spools, options, complain)
    for spool in spools:  # also when nothing could be written: the spool must stay small
        lost = spool.trim().lost
        if lost:
            complain(
                f"{spool.path}: {_some(sum(lost.values()), 'record')} dropped, to keep the spool within its limits."
            )
    return status


def _take_all(spools: list[Spool], options: argparse.Namespace, complain: Complain) -> int:
    waiting = [(spool, spool.waiting()) for spool in spools]
    jobs = dict.fromkeys(job for _, names in waiting for job in names if options.job in (None, job))
    made: dict[Path, None] = {}
    records = 0
    for job in jobs:
        # One job after the other: each record that is held costs an open file.
        taken = [(spool, record) for spool, names in waiting for record in spool.claim(names.get(job, ()))]
        try:
            folders = keep(options.to, job, [record for _, record in taken])
        except OSError as error:
            for spool, record in taken:
                spool.release(record)
            complain(
                f"{error.filename or options.to}: evidence cannot be written: {error.strerror or error}. "
                f"The records of job {job} and of those after it stay in the spool."
            )
            return UNUSABLE
        for spool, record in taken:
            records += spool.done(record)
        made.update(dict.fromkeys(folders))
    _say(made, records, options)
    return OK if made else NOTHING


def _say(made: dict[Path, None], records: int, options: argparse.Namespace) -> None:
    if not made:
        print("nothing waits" + (f" of job {options.job}" if options.job is not None else ""))
        return
    print(f"{_some(records, 'record')} became evidence in {_some(len(made), 'folder')}:")
    for folder in made:
        print(f"  {folder}")
