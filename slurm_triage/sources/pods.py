"""What Kubernetes says of pods and nodes: kubectl describe, get events, get pods, also `-o json` and `-o yaml`.

A line of a pod's or container's status gets the fields `pod`, `container`, `kind` (`init`, `debug`), `state` (`now`,
`last`: of the run before the last restart), `time` and `node` where its surroundings tell them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from slurm_triage.case import EvidenceFile
from slurm_triage.model import Event, Voice
from slurm_triage.sources import Context
from slurm_triage.sources._finder import finder
from slurm_triage.sources._messages import Keeper, known, matches, node_name, sign
from slurm_triage.sources._names import is_output_name
from slurm_triage.sources._pods import places

KIND = "kubectl"

MOST_BYTES = 64 * 1024 * 1024
"""Of a larger file each line is read for itself."""

_SHAPE = re.compile(
    r"\s{0,20}(?:Restart Count|Container ID|Image ID|Last State|QoS Class|Controlled By|Tolerations|Node-Selectors|"
    r"Service Account|Priority Class Name|Unschedulable|Non-terminated Pods|Status Reason):.*|"
    r"\s{0,20}Reason:\s{1,20}(?:Evicted|OOMKilled|Error|Completed|NodeLost|NodeShutdown|Terminated|Preempting|"
    r"ContainerStatusUnknown|DeadlineExceeded)\s{0,4}|"
    r"Node:\s{1,40}[A-Za-z0-9][\w.-]{0,252}/[\d.:a-f]{2,45}\s{0,4}|"
    r"(?:.{0,40}\s)?(?:Normal|Warning)\s{2,20}[A-Z][A-Za-z]{3,40}\s{2,40}\S.*|"
    r"(?:NAME\s{2,80}READY\s{2,20}STATUS|LAST SEEN\s{2,20}TYPE|\s{0,4}Type\s{2,20}Reason\s{2,30}Age)\b.*|"
    r"(?:apiVersion: v1|kind: (?:Pod|Event|Node)(?:List)?|kind: List)|"
    r"\s{0,40}(?:- )?\"?kind\"?: \"?(?:Pod|Event|Node)(?:List)?\"?,?|"
    r"\s{0,40}\"?(?:containerStatuses|lastState|involvedObject)\"?: ?[{\[]?"
)
_OBJECT = re.compile(
    r"(?:^|\s)[Pp]od/(?P<pod>[a-z0-9][a-z0-9.-]{0,252})"
    r"(?:\s{1,20}spec\.(?:c|initC|ephemeralC)ontainers\{(?P<container>[a-z0-9-]{1,63})\})?(?=\s)"
)
"""In a row of `kubectl get events`, also `-o wide`."""
_ON_NODE = re.compile(r"\s{0,4}Node:\s{1,30}(?P<node>[A-Za-z0-9][\w.-]{0,252})(?:/\S{1,64})?\s{0,4}")


def recognise(name: str, head: Sequence[str]) -> float:
    """By the layout of kubectl's output; messages of the kubelet alone may stand in any job's output (`Error: ...`)."""
    base = name.rsplit("/", 1)[-1].lower()
    if is_output_name(name):
        return 0.0
    hint = 0.1 if re.match(r"(?:pods?|kubectl|events|k8s|describe)\b", base) else 0.0
    found = any(known("kubernetes", line) for line in head)
    if any(_SHAPE.fullmatch(line[:1000]) for line in head):
        return 0.8 + hint
    if found:
        return 0.45 + hint
    return 0.15 if hint else 0.0  # a name alone: below a job's output whose lines are known (kubectl logs)


def parse(file: EvidenceFile, context: Context) -> Iterator[Event]:
    """A Sign for every line that the catalog knows; the node is the pod's, where the text names it."""
    keeper = Keeper()
    node: str | None = None
    around = places(file.lines()) if file.size() <= MOST_BYTES else {}
    for chunk in finder(("kubernetes",), ("Node:",)).chunks(file):
        for index, families in chunk.marked.items():
            text = chunk.text(index)
            if place := _ON_NODE.fullmatch(text):
                node = node_name(place["node"])
            number = chunk.first + index
            known_here = around[number].fields() if number in around else {}
            if row := _OBJECT.search(text[:1000]):
                known_here = known_here | {key: value for key, value in row.groupdict().items() if value}
            for signature, fields in matches(families, text):
                fields.update((key, value) for key, value in known_here.items() if key not in fields)
                if node and "node" not in fields:
                    fields["node"] = node
                keeper.add(number, text, signature.id, Voice.KUBERNETES, fields)
    for hit in keeper.hits():
        yield sign(KIND, file, context, hit)
