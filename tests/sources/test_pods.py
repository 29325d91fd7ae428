"""kubectl's words about a pod."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slurm_triage.case import EvidenceFile, Manifest
from slurm_triage.clock import Clock
from slurm_triage.model import Sign, Voice
from slurm_triage.sources import Context, pods

CONTEXT = Context(Clock(), Manifest())


def signs(text: str | bytes) -> list[Sign]:
    data = text.encode() if isinstance(text, str) else text
    found = pods.parse(EvidenceFile("pod.txt", data=data), CONTEXT)
    return [event for event in found if isinstance(event, Sign)]


def ids(text: str) -> list[str]:
    found = signs(text)
    assert all(s.voice is Voice.KUBERNETES for s in found)
    return [s.id for s in found]


def test_an_eviction() -> None:
    found = signs(
        "4m11s       Warning   Evicted               pod/egg-1    The node was low on resource: memory. Container egg "
        "was using 5053216Ki, which exceeds its request of 0.\n"
        "4m11s       Normal    Killing               pod/egg-1    Stopping container egg\n"
        "4m7s        Warning   Evicted               pod/egg-2    The node had condition: [MemoryPressure].\n"
    )
    assert [s.id for s in found] == ["pod_evicted", "pod_killing", "pod_evicted"]
    assert found[0].fields["pod"] == "egg-1" and found[0].fields["used"] == "5053216Ki"
    assert found[2].fields["condition"] == "MemoryPressure"


def test_a_liveness_kill_is_not_a_readiness_failure() -> None:
    assert ids(
        "Exit Code: 137\nLiveness probe failed: HTTP probe failed with statuscode: 503\n"
        "Container task-api failed liveness probe, will be restarted\n"
    ) == ["pod_exit_code", "pod_liveness_failed", "pod_killing_liveness"]
    assert ids("Readiness probe failed: HTTP probe failed with statuscode: 503") == ["pod_readiness_failed"]


def test_describe() -> None:
    found = signs(
        "Name:         train-0\nNode:         n7/10.0.0.7\nContainers:\n  main:\n    Last State:     Terminated\n"
        "      Reason:       OOMKilled\n      Exit Code:    137\n"
        "Tolerations:     node.kubernetes.io/not-ready:NoExecute op=Exists for 300s\n"
    )
    assert [s.id for s in found] == ["pod_oomkilled", "pod_exit_code"]
    assert {s.node for s in found} == {"n7"}


@pytest.mark.parametrize(
    ("line", "id"),
    [
        ("n1   Ready,SchedulingDisabled   <none>   90d   v1.30.1", "node_cordoned"),
        ("Normal  Preempted  pod/low-1  Preempted by pod 4f3e on node n1", "pod_preempted"),
        ("Warning  NodeNotReady  pod/web-1  Node is not ready", "pod_node_condition"),
        (
            'Warning  FailedMount  pod/web-1  MountVolume.SetUp failed for volume "data" : exit status 32',
            "pod_failed_mount",
        ),
        ('Warning  Failed  pod/web-1  Failed to pull image "reg/x:1": not found', "pod_image_error"),
    ],
)
def test_one_family_each(line: str, id: str) -> None:
    assert ids(line) == [id]


@pytest.mark.parametrize(
    "line",
    [
        "Unschedulable:      false",
        "  MemoryPressure   False   KubeletHasSufficientMemory",
        "Status:  Running",
        "Killing me softly",
    ],
)
def test_look_alikes_say_nothing(line: str) -> None:
    assert ids(line) == []


def test_recognise() -> None:
    events = "4m11s       Warning   Evicted               pod/egg-1    The node was low on resource: memory."
    assert pods.recognise("pod.txt", [events]) >= 0.9
    assert pods.recognise("x.txt", [events]) >= 0.8
    assert pods.recognise("job.out", [events]) == 0.0
    assert pods.recognise("x.txt", ["hello"]) == 0.0


@given(st.binary(max_size=2000))
@settings(max_examples=100, deadline=None)
def test_any_bytes(data: bytes) -> None:
    assert 0.0 <= pods.recognise("pod.txt", EvidenceFile("pod.txt", data=data).head()) <= 1.0
    signs(data)
