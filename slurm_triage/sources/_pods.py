"""Which pod and container a line of kubectl's output is about: `describe`, and `get -o json` or `-o yaml` as printed.

The lines are read as they stand, by their indentation, not as one document: pasted output is cut at both ends, and each
statement needs its line. `kubectl get -o json` and `-o yaml` sort keys (k8s.io/cli-runtime printers), so that a
container's name stands below its states: the names are looked for when all lines are known.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

MOST_LINES = 500_000
"""Lines of one file that are kept while it is read; what stands behind them belongs to no pod."""

_KEY = re.compile(
    r"(?P<indent> {0,80})(?P<item>(?:- )*)(?P<quote>\"?)(?P<key>[A-Za-z][\w./-]{0,80})(?P=quote):(?: (?P<value>.*))?"
)
_STATUSES = {"containerStatuses": "", "initContainerStatuses": "init", "ephemeralContainerStatuses": "debug"}
_SECTIONS = {"Containers:": "", "Init Containers:": "init", "Ephemeral Containers:": "debug"}
_STATE = re.compile(r" {0,8}(?P<last>Last )?State:\s{1,20}\S.{0,80}")
_AFTER_STATES = re.compile(
    r" {0,8}(?:Ready|Restart Count|Limits|Requests|Liveness|Readiness|Startup|Environment|Mounts):.*"
)
_FINISHED = re.compile(
    r" {0,10}Finished:\s{1,20}(?P<time>[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d [+-]\d{4})\s{0,4}"
)
_CONTAINER = re.compile(r" {1,4}(?P<name>[a-z0-9][a-z0-9-]{0,62}):\s{0,4}")
_FIELD_PATH = re.compile(r"spec\.(?:c|initC|ephemeralC)ontainers\{(?P<container>[a-z0-9-]{1,63})\}")
_NAME = re.compile(r"Name:\s{1,40}(?P<name>[a-z0-9][a-z0-9.-]{0,252})\s{0,4}")


@dataclass
class Where:
    """What a line is about, as far as its surroundings tell.

    `state` is `now` or `last`; `kind` `init`, `debug` or empty for a container that is meant to stay; `time` when a
    container ended or an event was seen last, in ISO 8601.
    """

    pod: str = ""
    container: str = ""
    kind: str = ""
    state: str = ""
    node: str = ""
    time: str = ""

    def fields(self) -> dict[str, str]:
        """What is known, by name."""
        return {key: value for key, value in vars(self).items() if value and value != "null"}


def places(lines: Iterable[tuple[int, str]]) -> dict[int, Where]:
    """By the number of the line, what it is about; lines of which nothing is known are left out."""
    texts = []
    for numbered in lines:
        texts.append(numbered)
        if len(texts) >= MOST_LINES:
            break
    return _of_documents(texts) if any(_is_document(text) for _, text in texts[:200]) else _of_description(texts)


def _is_document(text: str) -> bool:
    return (
        re.match(r"\s{0,40}(?:- )?\"?(?:apiVersion|kind|containerStatuses|lastState|involvedObject)\"?: ?", text)
        is not None
    )


# ------------------------------------------------------------------------------------------------ kubectl describe


def _of_description(lines: list[tuple[int, str]]) -> dict[int, Where]:
    found: dict[int, Where] = {}
    here = Where()
    inside = False
    for index, (number, text) in enumerate(lines):
        if name := _NAME.fullmatch(text):
            ahead = (below for _, below in lines[index + 1 : index + 4])
            here, inside = Where(pod=name["name"]), False
            if any(below.startswith("Roles:") for below in ahead):
                here = Where(node=name["name"])
        elif text.rstrip() in _SECTIONS:
            here, inside = Where(here.pod, kind=_SECTIONS[text.rstrip()], node=here.node), True
        elif text[:1].strip() and not _STATE.fullmatch(text):  # another part of the page
            here, inside = Where(here.pod, node=here.node), False
        elif (one := _CONTAINER.fullmatch(text)) and (inside or _begins_container(lines, index)):
            here = Where(here.pod, one["name"], here.kind, node=here.node)
        elif state := _STATE.fullmatch(text):
            here = Where(here.pod, here.container, here.kind, "last" if state["last"] else "now", here.node)
        elif finished := _FINISHED.fullmatch(text):
            here.time = _iso(finished["time"])
        elif _AFTER_STATES.fullmatch(text):
            here = Where(here.pod, here.container, here.kind, node=here.node)
        if here.fields():
            found[number] = here
    return found


def _iso(text: str) -> str:
    """A time as kubectl describe prints it (RFC 1123 with a numeric zone), empty for one that is none."""
    from email.utils import parsedate_to_datetime  # here: with it come sockets and all of mail, 10 ms for every case

    try:
        return parsedate_to_datetime(text).isoformat()
    except (ValueError, TypeError):
        return ""


def _begins_container(lines: list[tuple[int, str]], index: int) -> bool:
    """Whether the line below is what stands first of a container, in a text that was cut above it."""
    return index + 1 < len(lines) and lines[index + 1][1].lstrip().startswith(("Container ID:", "Image:"))


# ------------------------------------------------------------------------------------------------ JSON and YAML


@dataclass
class _Node:
    """A mapping of the document: its key (`[]` for an item of a list), plain values, and the mappings in it."""

    key: str
    above: _Node | None
    indent: int
    values: dict[str, str] = field(default_factory=dict)
    below: dict[str, _Node] = field(default_factory=dict)

    def up(self) -> Iterator[_Node]:
        """The mapping and all around it."""
        node: _Node | None = self
        while node is not None:
            yield node
            node = node.above


def _of_documents(lines: list[tuple[int, str]]) -> dict[int, Where]:
    owners: dict[int, _Node] = {}
    stack = [_Node("", None, -1)]
    for number, text in lines:
        if text.strip() in ("---", ""):
            stack = [_Node("", None, -1)]
        elif text.strip() == "{":
            indent = len(text) - len(text.lstrip())
            _close(stack, indent)
            stack.append(_Node("[]", stack[-1], indent))
        elif line := _KEY.fullmatch(text.rstrip()[:2000]):
            owners[number] = _keep(stack, line)
    return {number: where for number, node in owners.items() if (where := _where(node)).fields()}


def _close(stack: list[_Node], indent: int) -> None:
    while stack[-1].indent >= indent and len(stack) > 1:
        stack.pop()


def _keep(stack: list[_Node], line: re.Match[str]) -> _Node:
    """Puts a `key: value` where it belongs; returns the mapping that has it."""
    indent = len(line["indent"])
    for _ in range(len(line["item"]) // 2):  # YAML: each dash begins an item, as far in as the list's own key
        while len(stack) > 1 and (stack[-1].indent > indent or (stack[-1].indent == indent and stack[-1].key == "[]")):
            stack.pop()
        stack.append(_Node("[]", stack[-1], indent))
        indent += 2
    _close(stack, indent)
    owner = stack[-1]
    value = (line["value"] or "").strip().rstrip(",")
    if value in ("", "{", "["):
        node = _Node(line["key"], owner, indent)
        owner.below[line["key"]] = node
        stack.append(node)
    else:
        owner.values[line["key"]] = value.strip("\"'")
    return owner


def _where(node: _Node) -> Where:
    found = Where(time=node.values.get("finishedAt", ""))
    for one in node.up():
        parent = one.above.key if one.above is not None else ""
        if one.key in ("state", "lastState") and not found.state:
            found.state = "last" if one.key == "lastState" else "now"
        if parent in _STATUSES and one.key == "[]":
            found.container, found.kind = one.values.get("name", ""), _STATUSES[parent]
        if "kind" in one.values or "metadata" in one.below:
            _name(found, one)
            break
    return found


def _name(found: Where, document: _Node) -> None:
    """The pod or node that an object is, or that an event is about."""
    kind = document.values.get("kind", "")
    meta, spec = document.below.get("metadata"), document.below.get("spec")
    about = document.below.get("involvedObject") or document.below.get("regarding")
    if about is not None:
        kind, name = about.values.get("kind", ""), about.values.get("name", "")
        found.time = document.values.get("lastTimestamp", "") or document.values.get("eventTime", "")
        if one := _FIELD_PATH.fullmatch(about.values.get("fieldPath", "")):
            found.container = one["container"]
        source = document.below.get("source")
        found.node = source.values.get("host", "") if source is not None else ""
    else:
        name = meta.values.get("name", "") if meta is not None else ""
    if kind == "Node":
        found.node = name
    elif kind in ("Pod", ""):
        found.pod = name
        found.node = found.node or (spec.values.get("nodeName", "") if spec is not None else "")
