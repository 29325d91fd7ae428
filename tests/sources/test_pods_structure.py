"""Which pod, container and state a line of kubectl's output is about, also where the text is cut or mixed."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slurm_triage.case import EvidenceFile, Manifest
from slurm_triage.clock import Clock
from slurm_triage.model import Sign
from slurm_triage.sources import Context, pods, recognise
from slurm_triage.sources._pods import places

DESCRIBE = """\
Name:             worker-3
Namespace:        slurm
Priority:         0
Node:             gpu-07/10.0.3.7
Status:           Running
Init Containers:
  setup:
    Container ID:  containerd://11
    Image:         reg/setup:1
    State:          Terminated
      Reason:       Completed
      Exit Code:    0
      Started:      Mon, 30 Nov 2026 15:10:57 +0000
      Finished:     Mon, 30 Nov 2026 15:10:59 +0000
    Ready:          True
    Restart Count:  0
Containers:
  slurmd:
    Container ID:   containerd://22
    Port:           6818/TCP
    State:          Running
      Started:      Mon, 30 Nov 2026 15:11:00 +0000
    Ready:          True
    Restart Count:  0
    Limits:
      memory:  64Gi
  logfile:
    Container ID:   containerd://33
    State:          Running
      Started:      Mon, 30 Nov 2026 16:00:03 +0000
    Last State:     Terminated
      Reason:       OOMKilled
      Exit Code:    137
    Ready:          True
    Restart Count:  2
Conditions:
  Type              Status
  Ready             True
Events:
  Type     Reason     Age                From     Message
  ----     ------     ----               ----     -------
  Warning  Unhealthy  2m (x3 over 3m)    kubelet  Startup probe failed: command timed out
"""

POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"labels": {"name": "not-this"}, "name": "train-0", "namespace": "ml", "uid": "x"},
    "spec": {"containers": [{"image": "i", "name": "main"}, {"name": "proxy"}], "nodeName": "n12"},
    "status": {
        "conditions": [{"reason": "PodFailed", "status": "False", "type": "Ready"}],
        "containerStatuses": [
            {
                "lastState": {},
                "name": "main",
                "restartCount": 0,
                "state": {"terminated": {"containerID": "c", "exitCode": 1, "reason": "Error"}},
            },
            {
                "lastState": {"terminated": {"exitCode": 137, "reason": "OOMKilled"}},
                "name": "proxy",
                "restartCount": 1,
                "state": {"running": {"startedAt": "2026-11-30T15:10:57Z"}},
            },
        ],
        "initContainerStatuses": [{"name": "fetch", "state": {"terminated": {"exitCode": 0, "reason": "Completed"}}}],
        "phase": "Failed",
    },
}


def yaml(value: Any, indent: int = 0, dash: bool = False) -> str:
    """As kubectl prints it: lists as far in as their key."""
    lines = []
    for number, (key, below) in enumerate(value.items()):
        lead = " " * (indent - 2) + "- " if dash and number == 0 else " " * indent
        if isinstance(below, dict):
            lines.append(f"{lead}{key}:" + (" {}" if not below else ""))
            lines += [yaml(below, indent + 2)] if below else []
        elif isinstance(below, list):
            lines.append(f"{lead}{key}:")
            lines += [yaml(item, indent + 2, True) for item in below]
        else:
            lines.append(f"{lead}{key}: {below}")
    return "\n".join(lines)


def signs(text: str) -> list[Sign]:
    found = pods.parse(EvidenceFile("pod.txt", data=text.encode()), Context(Clock(), Manifest()))
    return [event for event in found if isinstance(event, Sign)]


def rows(text: str) -> list[tuple[str, ...]]:
    keys = ("pod", "container", "kind", "state", "node")
    return [(s.id, *(s.fields.get(key, "") for key in keys)) for s in signs(text)]


def test_describe_of_several_containers() -> None:
    assert rows(DESCRIBE) == [
        ("pod_state_reason", "worker-3", "setup", "init", "now", "gpu-07"),
        ("pod_exit_code", "worker-3", "setup", "init", "now", "gpu-07"),
        ("pod_restarts", "worker-3", "setup", "init", "", "gpu-07"),
        ("pod_restarts", "worker-3", "slurmd", "", "", "gpu-07"),
        ("pod_oomkilled", "worker-3", "logfile", "", "last", "gpu-07"),
        ("pod_exit_code", "worker-3", "logfile", "", "last", "gpu-07"),
        ("pod_restarts", "worker-3", "logfile", "", "", "gpu-07"),
        ("pod_liveness_failed", "worker-3", "", "", "", "gpu-07"),
    ]


def test_describe_that_is_cut_above_the_container() -> None:
    cut = DESCRIBE[DESCRIBE.index("  logfile:") :]
    assert [row[1:5] for row in rows(cut)[:2]] == [("", "logfile", "", "last")] * 2
    bare = DESCRIBE[DESCRIBE.index("    Last State:") :]
    assert [row[1:5] for row in rows(bare)[:2]] == [("", "", "", "last")] * 2


def test_two_pods_one_after_the_other() -> None:
    found = rows(DESCRIBE + "\n\n" + DESCRIBE.replace("worker-3", "worker-4").replace("gpu-07", "gpu-08"))
    assert {(row[1], row[5]) for row in found} == {("worker-3", "gpu-07"), ("worker-4", "gpu-08")}
    assert len(found) == 16


EXPECTED = [
    ("pod_state_reason", "train-0", "main", "", "now", "n12"),
    ("pod_exit_code", "train-0", "main", "", "now", "n12"),
    ("pod_restarts", "train-0", "main", "", "", "n12"),
    ("pod_oomkilled", "train-0", "proxy", "", "last", "n12"),
    ("pod_exit_code", "train-0", "proxy", "", "last", "n12"),
    ("pod_restarts", "train-0", "proxy", "", "", "n12"),
    ("pod_state_reason", "train-0", "fetch", "init", "now", "n12"),
    ("pod_exit_code", "train-0", "fetch", "init", "now", "n12"),
]


@pytest.mark.parametrize(
    "text",
    [
        json.dumps(POD, indent=4),
        json.dumps({"apiVersion": "v1", "items": [POD], "kind": "List", "metadata": {}}, indent=4),
        yaml(POD),
        yaml({"apiVersion": "v1", "items": [POD], "kind": "List"}),
    ],
    ids=["json", "json list", "yaml", "yaml list"],
)
def test_documents(text: str) -> None:
    assert sorted(rows(text)) == sorted(EXPECTED)
    lines = text.splitlines()
    for sign in signs(text):
        assert sign.cite.text == lines[sign.cite.line - 1]
    source = recognise(EvidenceFile("evidence-3", data=text.encode()))
    assert source is not None and source.KIND == "kubectl"


def test_a_document_that_is_cut_in_the_middle() -> None:
    text = json.dumps(POD, indent=4)
    tail = text[text.index('        "containerStatuses"') :]
    assert [row[2] for row in rows(tail)] == ["main"] * 3 + ["proxy"] * 3 + ["fetch"] * 2
    head = text[: text.index('"restartCount": 1')]
    assert ("pod_oomkilled", "train-0", "proxy", "", "last", "n12") in rows(head)


def test_events_as_documents() -> None:
    event = {
        "apiVersion": "v1",
        "involvedObject": {"fieldPath": "spec.containers{main}", "kind": "Pod", "name": "train-0"},
        "kind": "Event",
        "message": "Container main failed liveness probe, will be restarted",
        "metadata": {"name": "train-0.17a"},
        "reason": "Killing",
        "source": {"component": "kubelet", "host": "n12"},
    }
    text = json.dumps({"apiVersion": "v1", "items": [event], "kind": "List"}, indent=4)
    assert rows(text) == [("pod_killing_liveness", "train-0", "main", "", "", "n12")]


def test_describe_node_is_about_a_node() -> None:
    text = (
        "Name:               n12\nRoles:              <none>\n"
        "Taints:             node.kubernetes.io/unschedulable:NoSchedule\nUnschedulable:      true\n"
    )
    assert {(row[0], row[1], row[5]) for row in rows(text)} == {("node_cordoned", "", "n12")}


@given(st.text(alphabet=' \n-:{}[]"aNSC', max_size=400))
@settings(max_examples=200, deadline=None)
def test_any_text(text: str) -> None:
    places(enumerate(text.split("\n"), 1))


def test_deep_and_long_documents_are_read_in_linear_time() -> None:
    deep = "\n".join(" " * min(n, 80) + f"k{n}:" for n in range(20_000))
    wide = "kind: List\n" + "- lastState:\n" * 50_000
    for text in (deep, wide, "kind: Pod\n" + deep):
        places(enumerate(text.split("\n"), 1))


def test_rows_of_events_name_their_pod_and_container() -> None:
    text = (
        "NAMESPACE   LAST SEEN   TYPE      REASON    OBJECT      SUBOBJECT                SOURCE        MESSAGE\n"
        "slurm       2m          Normal    Killing   pod/w-3     spec.containers{slurmd}  kubelet, n1   "
        "Container slurmd failed liveness probe, will be restarted\n"
        "slurm       9m          Warning   Evicted   pod/w-4                              kubelet, n2   "
        "The node was low on resource: memory. \n"
    )
    assert [row[:3] for row in rows(text)] == [("pod_killing_liveness", "w-3", "slurmd"), ("pod_evicted", "w-4", "")]


def test_times() -> None:
    text = DESCRIBE.replace(
        "      Exit Code:    137\n",
        "      Exit Code:    137\n      Started:      Mon, 30 Nov 2026 16:10:00 +0100\n"
        "      Finished:     Mon, 30 Nov 2026 17:10:00 +0100\n",
    )
    (oom,) = (s for s in signs(text) if s.id == "pod_oomkilled")
    assert oom.at is not None and oom.at.zoned and oom.at.lo == 1796055000.0
    pod = json.loads(json.dumps(POD))
    pod["status"]["containerStatuses"][1]["lastState"]["terminated"]["finishedAt"] = "2026-11-30T16:10:00Z"
    for form in (json.dumps(pod, indent=4, sort_keys=True), yaml(pod)):
        (oom,) = (s for s in signs(form) if s.id == "pod_oomkilled")
        assert oom.at is not None and oom.at.lo == 1796055000.0


@pytest.mark.parametrize("time", ["Mon, 31 Feb 2026 15:10:57 +0000", "Xyz, 99 Abc 2026 99:99:99 +9999"])
def test_times_that_are_none(time: str) -> None:
    text = f"    Last State:     Terminated\n      Reason:       OOMKilled\n      Finished:     {time}\n"
    assert [s.at for s in signs(text)] == [None]


def test_a_list_is_recognised_before_any_state_of_a_container() -> None:
    long = {
        **POD,
        "spec": {"containers": [{"env": [{"name": f"V{n}", "value": "x"} for n in range(90)], "name": "main"}]},
    }
    text = json.dumps({"apiVersion": "v1", "items": [long], "kind": "List"}, indent=4)
    source = recognise(EvidenceFile("evidence-3", data=text.encode()))
    assert source is not None and source.KIND == "kubectl"
