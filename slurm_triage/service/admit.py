"""What is believed of a message from a node: only well-formed cases, of a host that is where it says it is."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from slurm_triage.service.assemble import CONTROLLER, KINDS
from slurm_triage.service.intake import Told
from slurm_triage.service.peers import Peers
from slurm_triage.service.texts import Asked
from slurm_triage.transport.message import Malformed, Message

TAKEN, LATER = "taken", "later"
MOST_CASES = 200
MOST_ASKED = 1000
_JOB = re.compile(r"[0-9]{1,10}")
_NODE = re.compile(r"[0-9A-Za-z][0-9A-Za-z._-]{0,63}")
_MANIFEST = ("boot_epoch", "page_size", "line_ranges", "env_format", "cluster")
_DAY = 86400.0


def cases_of(message: Message, now: float) -> list[Told | str]:
    """The cases of a message of kind `evidence`; for one that is none the sentence that says why. Raises `Malformed`.

    `now` is the service's epoch; what the sender's clock differs from it is taken out of its times.
    """
    heads, sent = message.head.get("cases"), _number(message.head.get("now"))
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
    ended, start = _number(head.get("ended")), head.get("start")
    if not isinstance(job, str) or not _JOB.fullmatch(job):
        return "no job id"
    if (
        role not in ("node", CONTROLLER)
        or not isinstance(node, str)
        or not (_NODE.fullmatch(node) or role == CONTROLLER)
    ):
        return "no name of a node"
    if isinstance(uid, bool) or not isinstance(uid, int) or ended is None:
        return "no uid, or no time"
    if start is not None and (isinstance(start, bool) or not isinstance(start, int)):
        return "a start that is no time"
    manifest, unseen = head.get("manifest"), head.get("not_seen")
    if not isinstance(manifest, dict) or not isinstance(unseen, list):
        return "no manifest"
    return Told(
        job=job,
        start=start,
        node=node if role == "node" else "",
        role=role,
        uid=uid,
        array=_array(head.get("array")),
        ended=min(ended + offset, now),
        offset=offset,
        received=now,
        manifest={key: manifest[key] for key in _MANIFEST if key in manifest},
        not_seen=tuple(text[:500] for text in unseen[:50] if isinstance(text, str)),
        # An agent that is newer than the service may send more; accounting is none of its business.
        files={name: data for name, data in files.items() if name.startswith(tuple(KINDS))},
    )


def _array(value: object) -> tuple[str, str] | None:
    if isinstance(value, list) and len(value) == 2 and all(isinstance(v, str) and _JOB.fullmatch(v) for v in value):
        return value[0], value[1]
    return None


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def asked_of(message: Message, now: float) -> list[Asked]:
    """The targets of a message of kind `texts`. Raises `Malformed`."""
    listed = message.head.get("asked")
    if not isinstance(listed, list) or len(listed) > MOST_ASKED:
        raise Malformed("a question without targets")
    found = []
    for one in listed:
        try:
            job, node, start, ended = one["job"], one["node"], one["start"], one["ended"]
            good = _JOB.fullmatch(job) and (node == "" or _NODE.fullmatch(node))
            if not good or isinstance(ended, bool) or not isinstance(ended, (int, float)):
                raise Malformed("a target that is none")
            if start is not None and (isinstance(start, bool) or not isinstance(start, int)):
                raise Malformed("a target that is none")
            found.append(
                Asked(job, None if start is None else float(start), min(float(ended), now + _DAY), node,
                      one["batch_host"] is True, int(one["revision"]))
            )  # fmt: skip
        except (KeyError, TypeError, ValueError) as error:
            raise Malformed("a target that is none") from error
    return found


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
