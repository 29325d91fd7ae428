"""Pods: who ended them, and which of their containers counts."""

from __future__ import annotations

import pytest

from slurm_triage.case import from_files
from slurm_triage.engine import diagnose
from slurm_triage.model import Diagnosis, Owner, Strength

HEAD = "LAST SEEN   TYPE      REASON      OBJECT         MESSAGE\n"
PROBE = (
    "2m          Warning   Unhealthy   pod/train-0    Liveness probe failed: HTTP probe failed with statuscode: 503\n"
)
KILL = "2m          Normal    Killing     pod/train-0    Container main failed liveness probe, will be restarted\n"


def said(**files: str) -> Diagnosis:
    return diagnose(from_files({f"{name}.txt": text.encode() for name, text in files.items()}))


def named(diagnosis: Diagnosis) -> set[str]:
    return {diagnosis.cause, *(v.cause for v in diagnosis.also)}


def container(name: str, *, now: str = "Running", code: int | None = None, last: str = "", restarts: int = 0) -> str:
    """One container of kubectl describe; `last` is `REASON CODE` of the run before."""
    lines = [f"  {name}:", "    Container ID:   containerd://1", f"    State:          {now.split()[0]}"]
    if code is not None:
        lines += [f"      Reason:       {now.split()[1]}", f"      Exit Code:    {code}"]
    if last:
        reason, number = last.split()
        lines += ["    Last State:     Terminated", f"      Reason:       {reason}", f"      Exit Code:    {number}"]
    return "\n".join([*lines, f"    Ready:          {code is None}", f"    Restart Count:  {restarts}"]) + "\n"


def pod(*containers: str, events: str = "", name: str = "train-0") -> str:
    return (
        f"Name:             {name}\nNode:             n1/10.0.0.1\nContainers:\n{''.join(containers)}Events:\n{events}"
    )


# ------------------------------------------------------------------------------------------------ probes


def test_probe_that_killed() -> None:
    found = said(pod=HEAD + PROBE + KILL)
    assert (found.cause, found.strength, found.owner) == ("liveness_probe_kill", Strength.CONFIRMED, Owner.USER)
    assert any("failed liveness probe" in cite.text for cite in found.evidence)


def test_probe_and_death_without_the_line_between() -> None:
    found = said(pod=pod(container("main", last="Error 137", restarts=1)), events=HEAD + PROBE)
    assert (found.cause, found.strength) == ("liveness_probe_kill", Strength.LIKELY)
    alone = said(pod=pod(container("main", last="Error 137", restarts=1)))
    assert "liveness_probe_kill" not in named(alone), "137 alone names nobody"


def test_the_probe_of_slurmd_is_the_administrators() -> None:
    found = said(pod=HEAD + PROBE + KILL.replace("Container main", "Container slurmd"))
    assert (found.cause, found.owner) == ("liveness_probe_kill", Owner.ADMIN)


def test_probe_warnings_that_were_survived() -> None:
    found = said(pod=pod(container("main")), events=HEAD + PROBE * 3)
    assert "liveness_probe_kill" not in named(found)
    assert "liveness_probe_kill" in {v.cause for v in found.ruled_out}


def test_readiness_kills_nobody() -> None:
    ready = PROBE.replace("Liveness", "Readiness")
    assert "liveness_probe_kill" not in named(
        said(pod=pod(container("main", last="Error 137", restarts=1)), events=HEAD + ready)
    )


def test_probe_and_oom_kill_leave_it_open() -> None:
    found = said(pod=pod(container("main", last="OOMKilled 137", restarts=1)), events=HEAD + PROBE + KILL)
    strong = {v.cause for v in found.also if v.strength is Strength.CONFIRMED}
    assert found.strength is not Strength.CONFIRMED and not strong


# ------------------------------------------------------------------------------------------------ OOMKilled, and of whom


def test_oom_kill_of_the_only_container() -> None:
    found = said(pod=pod(container("main", now="Terminated OOMKilled", code=137)))
    assert (found.cause, found.strength, found.owner) == ("memcg_oom", Strength.LIKELY, Owner.USER)


def test_oom_kill_of_a_helper_that_did_not_matter() -> None:
    helper = container("proxy", last="OOMKilled 137", restarts=1)
    found = said(pod=pod(container("main", now="Terminated Error", code=1), helper))
    assert "memcg_oom" not in named(found) and "global_oom" not in named(found)
    main = said(pod=pod(container("main", now="Terminated OOMKilled", code=137), helper))
    assert main.cause == "memcg_oom"


def test_oom_kill_of_a_helper_beside_slurmd() -> None:
    helper = container("logfile", last="OOMKilled 137", restarts=2)
    assert "memcg_oom" not in named(said(pod=pod(container("slurmd"), helper)))
    daemon = container("slurmd", last="OOMKilled 137", restarts=1)
    assert said(pod=pod(daemon, container("logfile"))).cause == "memcg_oom"


def test_helpers_of_one_pod_say_nothing_of_another() -> None:
    other = pod(container("slurmd"), container("logfile"), name="worker-1")
    found = said(a=pod(container("main", now="Terminated OOMKilled", code=137)), pod=other)
    assert found.cause == "memcg_oom"


# ------------------------------------------------------------------------------------------------ whose limit

SACCT = (
    "JobID|JobIDRaw|JobName|State|ExitCode|Start|End|NodeList|ReqMem\n"
    "77|77|train|OUT_OF_MEMORY|0:125|2026-11-30T15:00:00|2026-11-30T15:10:00|n1|400G\n"
    "77.batch|77.batch|batch|OUT_OF_MEMORY|0:125|2026-11-30T15:00:00|2026-11-30T15:10:00|n1|\n"
)
BELOW = "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod01234567_89ab_cdef_0123_456789abcdef.slice"
JOB = f"{BELOW}/cri-containerd-abc.scope/system.slice/slurmstepd.scope/job_77/step_batch/user/task_0"


def kernel(limit: str) -> str:
    return (
        f"[  100.000000] oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=x,mems_allowed=0,oom_memcg={limit},"
        f"task_memcg={JOB},task=python,pid=4242,uid=1001\n"
        "[  100.000001] Memory cgroup out of memory: Killed process 4242 (python) total-vm:9000kB, anon-rss:8000kB, "
        "file-rss:0kB, shmem-rss:0kB, UID:1001 pgtables:80kB oom_score_adj:0\n"
    )


def test_the_jobs_own_limit_in_a_pod_is_the_users() -> None:
    found = said(sacct=SACCT, kmsg=kernel(JOB.removesuffix("/step_batch/user/task_0")))
    assert (found.cause, found.strength, found.owner) == ("memcg_oom", Strength.CONFIRMED, Owner.USER)


def test_the_limit_of_the_pod_around_it_is_the_administrators() -> None:
    found = said(sacct=SACCT, kmsg=kernel(f"{BELOW}/cri-containerd-abc.scope"))
    assert (found.cause, found.strength, found.owner) == ("memcg_oom", Strength.CONFIRMED, Owner.ADMIN)
    assert "pod" in found.summary
    assert said(sacct=SACCT).strength is Strength.LIKELY, "without the kernel's line nobody knows whose limit it was"


def test_another_jobs_kill_at_the_pods_limit_is_not_ours() -> None:
    found = said(sacct=SACCT, kmsg=kernel(BELOW).replace("job_77", "job_78"))
    assert found.strength is not Strength.CONFIRMED


# ------------------------------------------------------------------------------------------------ eviction, deletion

EVICTED = "Status:           Failed\nReason:           Evicted\nMessage:          {}\n"


@pytest.mark.parametrize(
    ("message", "owner"),
    [
        ("The node was low on resource: memory. Threshold quantity: 100Mi, available: 91628Ki. ", Owner.ADMIN),
        (
            "The node was low on resource: memory. Threshold quantity: 100Mi, available: 91628Ki. Container main was using "
            "61Gi, request is 8Gi, has larger consumption of memory. ",
            Owner.USER,
        ),
        (
            "The node was low on resource: ephemeral-storage. Container main was using 40Gi, which exceeds its request of 0. ",
            Owner.USER,
        ),
        ("The node had condition: [DiskPressure]. ", Owner.ADMIN),
        ("Pod ephemeral local storage usage exceeds the total limit of containers 2Gi. ", Owner.USER),
        ('Usage of EmptyDir volume "scratch" exceeds the limit "4Gi". ', Owner.USER),
        ("Pod was terminated in response to imminent node shutdown.", Owner.ADMIN),
    ],
)
def test_evictions(message: str, owner: Owner) -> None:
    text = "Name:             train-0\nNode:             n1/10.0.0.1\n" + EVICTED.format(message)
    found = said(pod=text)
    assert (found.cause, found.owner) == ("pod_evicted", owner)
    assert found.strength is Strength.CONFIRMED


def test_a_program_that_failed_by_itself_leaves_the_eviction_likely() -> None:
    error = b'Traceback (most recent call last):\n  File "t.py", line 1, in <module>\nKeyError: 3\n'
    line = b"1m   Warning   Evicted   pod/w-3   The node was low on resource: memory. \n"
    found = diagnose(from_files({"job.out": error, "pod.txt": HEAD.encode() + line}))
    assert "pod_evicted" in named(found)
    confirmed = {v.cause for v in (*found.also,) if v.strength is Strength.CONFIRMED}
    assert "pod_evicted" not in confirmed and (found.cause, found.strength) != ("pod_evicted", Strength.CONFIRMED)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("3m   Normal    Preempted              pod/w-3   Preempted by pod 8a7f on node n1", "higher priority"),
        ("1m   Normal    TaintManagerEviction   pod/w-3   Marking for deletion Pod slurm/w-3", "taint"),
        ("1m   Warning   Evicted   pod/w-3   The node was low on resource: memory. ", "low on memory"),
        ("1m   Warning   Evicted   pod/w-3   The node had condition: [DiskPressure]. ", "DiskPressure"),
        ("Message:      Pod was terminated in response to imminent node shutdown.", "shut down"),
    ],
)
def test_why_is_said(line: str, words: str) -> None:
    found = said(pod=HEAD + line + "\n")
    assert found.cause == "pod_evicted" and words in found.summary


@pytest.mark.parametrize("reason", ["EvictionByEvictionAPI", "DeletionByTaintManager", "TerminationByKubelet"])
def test_reasons_of_a_disruption(reason: str) -> None:
    text = f'{{\n    "kind": "Pod",\n    "metadata": {{\n        "name": "w"\n    }},\n    "status": {{\n        "conditions": [\n            {{\n                "reason": "{reason}",\n                "status": "True",\n                "type": "DisruptionTarget"\n            }}\n        ]\n    }}\n}}\n'
    assert said(pod=text).cause == "pod_evicted"


@pytest.mark.parametrize(
    "line",
    [
        "Unschedulable:      true",
        "n1   Ready,SchedulingDisabled   <none>   90d   v1.30.1",
        "5m   Normal   NodeNotSchedulable   node/n1   Node n1 status is now: NodeNotSchedulable",
        "5m   Warning   EvictionThresholdMet   node/n1   Attempting to reclaim memory",
    ],
)
def test_a_cordon_or_a_threshold_evicts_nobody(line: str) -> None:
    assert "pod_evicted" not in named(said(pod=f"{line}\n"))


def test_a_deletion_is_possible_at_most() -> None:
    deleted = (
        "3m   Normal   SuccessfulDelete   statefulset/worker   delete Pod worker-3 in StatefulSet worker successful\n"
    )
    found = said(pod=HEAD + deleted)
    assert (found.cause, found.strength) == ("pod_evicted", Strength.POSSIBLE)
    failed = said(pod=pod(container("main", now="Terminated Error", code=2)), events=HEAD + deleted)
    assert "pod_evicted" not in named(failed), "it had failed before it was deleted"


# ------------------------------------------------------------------------------------------------ reasons in Slurm

LOST = SACCT.replace("OUT_OF_MEMORY|0:125", "NODE_FAIL|0:0").replace(
    "77.batch|77.batch|batch|NODE_FAIL", "77.batch|77.batch|batch|CANCELLED"
)


def sinfo(reason: str) -> str:
    return (
        f"REASON               USER      TIMESTAMP           NODELIST\n{reason:<20} root      2026-11-30T15:09:00 n1\n"
    )


@pytest.mark.parametrize("reason", ["k8s: pod deleted", "slurm-operator: Pod was evicted", "k8s: pod not ready"])
def test_a_node_whose_pod_went_away(reason: str) -> None:
    found = said(sacct=LOST, sinfo=sinfo(reason))
    assert found.cause == "node_fail"
    (beside,) = [v for v in found.also if v.cause == "pod_evicted"]
    assert beside.strength is Strength.LIKELY and beside.owner is Owner.ADMIN


@pytest.mark.parametrize("reason", ["k8s: cordon", "k8s: node cordoned", "jdoe: pod deleted"])
def test_a_drain_for_a_cordon_is_no_eviction(reason: str) -> None:
    assert "pod_evicted" not in named(said(sacct=LOST, sinfo=sinfo(reason)))


def test_a_drained_node_lets_its_jobs_run() -> None:
    failed = SACCT.replace("OUT_OF_MEMORY|0:125", "FAILED|1:0")
    assert "pod_evicted" not in {
        v.cause for v in (*said(sacct=failed, sinfo=sinfo("k8s: pod deleted")).also,) if v.strength.rank > 1
    }


def test_an_excerpt_of_two_lines_is_enough() -> None:
    found = said(evidence="Reason:       Evicted\nMessage:      The node was low on resource: memory.\n")
    assert (found.cause, found.owner) == ("pod_evicted", Owner.ADMIN)
    assert {c.kind for c in found.coverage} == {"kubectl"}
    plain = said(evidence="Reason:       Not responding\n")
    assert {c.kind for c in plain.coverage} == {"slurmctld_log"}


def test_what_happened_to_the_pod_on_another_day_is_not_the_jobs_end() -> None:
    times = "Start|End|", "2026-11-30T15:00:00Z|2026-11-30T15:10:00Z|"
    sacct = f"JobIDRaw|State|ExitCode|{times[0]}NodeList\n77|FAILED|1:0|{times[1]}n1\n"
    event = (
        '{{\n    "kind": "Event",\n    "involvedObject": {{\n        "kind": "Pod",\n        "name": "w-3"\n    }},\n'
        '    "lastTimestamp": "{}",\n    "message": "The node was low on resource: memory. ",\n    "reason": "Evicted"\n}}\n'
    )
    assert "pod_evicted" in named(said(sacct=sacct, pod=event.format("2026-11-30T15:09:59Z")))
    assert "pod_evicted" not in named(said(sacct=sacct, pod=event.format("2026-11-29T15:09:59Z")))


# ------------------------------------------------------------------------------------------------ too few pods

BARRIER = "torch.distributed.DistNetworkError: The client socket has timed out after 600000ms while trying to connect to (10.0.0.1, 29500).\n"
PENDING = "NAME       READY   STATUS    RESTARTS   AGE\nworker-0   1/1     Running   0          14m\nworker-7   0/1     Pending   0          14m\n"


def output(pods: str | None) -> Diagnosis:
    files = {"job.out": f'Traceback (most recent call last):\n  File "t.py", line 1, in <module>\n{BARRIER}'.encode()}
    return diagnose(from_files(files | ({"pod.txt": pods.encode()} if pods is not None else {})))


@pytest.mark.parametrize(
    "pods",
    [
        PENDING,
        HEAD
        + "2m   Warning   FailedScheduling   pod/worker-7   0/5 nodes are available: 5 Insufficient nvidia.com/gpu.\n",
        "Name:               worker\nReplicas:           8 desired | 7 total\n",
        "Name:               worker\nPods Status:        7 Running / 1 Waiting / 0 Succeeded / 0 Failed\n",
    ],
)
def test_ranks_that_waited_for_pods_that_never_ran(pods: str) -> None:
    found = output(pods)
    assert (found.cause, found.strength) == ("incomplete_launch", Strength.LIKELY)
    assert "incomplete_launch" not in named(output(None)), "the barrier alone does not say it"


@pytest.mark.parametrize(
    "pods",
    [
        PENDING.replace("0/1     Pending", "1/1     Running"),
        "Name:               worker\nReplicas:           8 desired | 8 total\n",
        "Name:               worker\nPods Status:        8 Running / 0 Waiting / 0 Succeeded / 0 Failed\n",
    ],
)
def test_all_pods_were_there(pods: str) -> None:
    assert "incomplete_launch" not in named(output(pods))


def test_a_pod_that_waits_while_no_rank_did_says_nothing() -> None:
    assert "incomplete_launch" not in named(said(pod=PENDING))
