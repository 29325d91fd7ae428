"""What is believed of a message from a node: only well-formed cases, of a host that is where it says it is."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from slurm_triage.service import of_host
from slurm_triage.service.assemble import CONTROLLER
from slurm_triage.service.intake import Told
from slurm_triage.service.peers import Peers
from slurm_triage.service.texts import Asked, Outcome
from slurm_triage.transport.message import Malformed, Message

TAKEN, LATER = "taken", "later"
MOST_CASES = 200
MOST_ASKED = 1000
_JOB = re.compile(r"[0-9]{1,10}")
_NODE = re.compile(r"[0-9A-Za-z][0-9A-Za-z._-]{0,63}")
_DAY = 86400.0
_LAST_ID = 2**32 - 1
_MOST_REVISIONS = 2**31


def cases_of(message: Message, now: float) -> list[Told | str]:
    """The cases of a message of kind `evidence`; for one that is none the sentence that says why. Raises `Malformed`.

    `now` is the service's epoch; what the sender's clock differs from it is taken out of its times.
    """
    heads, sent = message.head.get("cases"), of_host.number(message.head.get("now"))
    if not isinstance(heads, list) or sent is None or not 0 < len(heads) <= MOST_CASES:
        raise Malformed("evidence without cases")
    offset = now - sent
    found: list[Told | str] = []
    for index, head in enumerate(heads):
        prefix = f"{index}/"
        files = {name[len(prefix) :]: data for name, data in message.files.items() if name.startswith(prefix)}
        found.append(_case(head, files, offset, now) if isinstance(head, dict) else "no case")
    return found


def _case(head: Mapping[str, Any], files: Mapping[str, bytes], offset: float, now: float) -> Told | str:
    job, node, role, uid = head.get("job"), head.get("node"), head.get("role"), head.get("uid")
    ended, start = of_host.number(head.get("ended")), head.get("start")
    if not isinstance(job, str) or not _JOB.fullmatch(job):
        return "no job id"
    if (
        role not in ("node", CONTROLLER)
        or not isinstance(node, str)
        or not (_NODE.fullmatch(node) or role == CONTROLLER)
    ):
        return "no name of a node"
    if isinstance(uid, bool) or not isinstance(uid, int) or not -1 <= uid <= _LAST_ID or ended is None:
        return "no uid, or no time"
    if start is not None and not _is_start(start):
        return "a start that is no time"
    manifest, unseen = head.get("manifest"), head.get("not_seen")
    if not isinstance(manifest, dict) or not isinstance(unseen, list):
        return "no manifest"
    host = node if role == "node" else ""
    taken = of_host.files(host, files)
    return Told(
        job=job,
        start=start,
        node=host,
        role=role,
        uid=uid,
        array=_array(head.get("array")),
        ended=min(ended + offset, now),
        offset=offset,
        received=now,
        manifest=of_host.manifest(host, manifest, taken),
        not_seen=tuple(_text(text, 500) for text in unseen[:50] if isinstance(text, str)),
        # An agent that is newer than the service may send more; accounting is none of its business.
        files=taken,
    )


def _is_start(value: object) -> bool:
    return type(value) is int and 0 <= value <= of_host.LATEST


def _array(value: object) -> tuple[str, str] | None:
    if isinstance(value, list) and len(value) == 2 and all(isinstance(v, str) and _JOB.fullmatch(v) for v in value):
        return value[0], value[1]
    return None


def asked_of(message: Message, now: float) -> list[Asked]:
    """The targets of a message of kind `texts`. Raises `Malformed`."""
    listed = message.head.get("asked")
    if not isinstance(listed, list) or len(listed) > MOST_ASKED:
        raise Malformed("a question without targets")
    found = []
    for one in listed:
        target = _asked(one, now) if isinstance(one, dict) else None
        if target is None:
            raise Malformed("a target that is none")
        found.append(target)
    return found


def _asked(one: Mapping[str, Any], now: float) -> Asked | None:
    """One target; None for what is none. `now` is the service's epoch."""
    job, node, start, revision = one.get("job"), one.get("node"), one.get("start"), one.get("revision")
    ended = of_host.number(one.get("ended"))
    if not isinstance(job, str) or not _JOB.fullmatch(job) or ended is None:
        return None
    if (
        not isinstance(node, str)
        or (node and not _NODE.fullmatch(node))
        or (start is not None and not _is_start(start))
    ):
        return None
    if type(revision) is not int or not 0 <= revision < _MOST_REVISIONS:
        return None
    began = None if start is None else float(start)
    return Asked(job, began, min(ended, now + _DAY), node, one.get("batch_host") is True, revision)


def outcomes_of(message: Message, now: float) -> list[Outcome]:
    """What nodes say that came of texts, as far as it can be understood."""
    listed = message.head.get("done")
    found = []
    for one in listed[:MOST_ASKED] if isinstance(listed, list) else ():
        target = _asked(one, now) if isinstance(one, dict) else None
        if target is not None:
            path, why = _text(one.get("path"), 1000), _text(one.get("why"), 300)
            found.append(Outcome(target, one.get("written") is True, one.get("last") is True, path, why))
    return found


def _text(value: object, most: int) -> str:
    """A text that any file can hold."""
    return value[:most].encode("utf-8", "replace").decode() if isinstance(value, str) else ""


def check(node: str, role: str, uid: int, address: str, peers: Peers | None, slurm_uid: int) -> str:
    """`taken` if this uid at this address may speak for the host; `later` if nobody can tell now; else why not.

    Without `peers` a sender is believed wherever it is.
    """
    if uid != 0 and not (role == CONTROLLER and uid == slurm_uid):
        return f"refused: uid {uid} is not root" + (" or SlurmUser" if role == CONTROLLER else "")
    if peers is None:
        return TAKEN
    there = peers.controller_is_at(address) if role == CONTROLLER else peers.node_is_at(node, address)
    if there is None:
        return LATER
    if not there:
        whose = "no host of slurmctld" if role == CONTROLLER else f"not node {node}"
        return f"refused: at {address} is {whose}, as slurmctld has it"
    return TAKEN


Check = Callable[[str, str, int, str], str]
"""`check` with what it needs: node, role, uid, address."""
