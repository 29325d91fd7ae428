"""Lines about nodes explain a job only if they speak of its nodes and of its time."""

from __future__ import annotations

import pytest

from slurm_triage.model import Owner
from tests.reasoning.build import (
    KEY_ERROR,
    candidates,
    clock,
    completed,
    confirmed,
    controller,
    failed,
    job,
    manifest,
    sacct,
    step,
    told,
)

REASONS = "REASON               USER      TIMESTAMP           NODELIST\n"
DOWN = "error: Nodes {} not responding, setting DOWN"


@pytest.mark.parametrize(
    "extra",
    [
        [(50, DOWN.format("n9"))],
        [(90000, DOWN.format("c1"))],
        [
            (50, "error: prolog error on node n9, draining the node"),
            (50, "drain_nodes: node n9 state set to DRAIN"),
            (51, "update_node: node n9 reason set to: Prolog error"),
        ],
    ],
    ids=["other-node-down", "down-a-day-later", "prolog-of-another-node"],
)
def test_controllers_lines_about_other_nodes_or_times(extra: list[tuple[int, str]]) -> None:
    answer = told(failed(KEY_ERROR, more={"slurmctld.log": controller(extra=extra)}))
    assert (answer.cause, answer.owner) == ("app_error", Owner.USER)
    assert confirmed(answer) == {"app_error"}
    assert not {"node_fail", "prolog_failed"} & set(candidates(answer))


@pytest.mark.parametrize(
    "rows",
    [
        f"Prolog error         root      {clock(200)} n9\nKill task failed     root      {clock(300)} n10\n"
        f"Not responding       slurm     {clock(400)} n[11-12]\n",
        f"Prolog error         root      {clock(7200)} c1\n",
        f"Kill task failed     root      {clock(5000)} c1\nNot responding       slurm     {clock(9000)} c1\n",
    ],
    ids=["other-nodes", "prolog-of-a-later-job", "drained-later"],
)
def test_reasons_of_other_nodes_or_of_later_times(rows: str) -> None:
    answer = told(failed(KEY_ERROR, more={"sinfo-R.txt": REASONS + rows}))
    assert (answer.cause, answer.owner) == ("app_error", Owner.USER)
    assert confirmed(answer) == {"app_error"}
    assert not {"node_fail", "prolog_failed"} & set(candidates(answer))


def test_node_goes_down_long_after_a_job_that_ended_well() -> None:
    log = controller("WEXITSTATUS 0", extra=[(5000, DOWN.format("c1"))])
    answer = told({**completed("done\n"), "slurmctld.log": log})
    assert (answer.cause, answer.owner) == ("no_failure", Owner.NOBODY)
    assert "node_fail" not in candidates(answer)


def test_another_node_is_down_in_the_jobs_time() -> None:
    node = "NodeName=n9 Arch=x86_64 CoresPerSocket=1\n   State=DOWN+DRAIN ThreadsPerCore=1\n"
    answer = told(
        {
            "manifest.toml": manifest(),
            "sacct.psv": sacct(job("FAILED", "1:0"), step("batch", "FAILED", "1:0")),
            "scontrol-node.txt": f"{node}   Reason=Not responding [slurm@{clock(50)}]\n",
        }
    )
    assert answer.cause == "app_error"
    assert "node_fail" not in candidates(answer)


def test_node_that_a_job_with_no_kill_went_on_without() -> None:
    rows = job("FAILED", "1:0", nodes="c[1-2]", count=2), step("batch", "FAILED", "1:0")
    output = "srun: error: Node failure on c2\ngoing on with c1\n" + "epoch\n" * 10 + KEY_ERROR
    answer = told(failed(output, more={"sacct.psv": sacct(*rows)}))
    assert (answer.cause, answer.owner) == ("app_error", Owner.USER)
    assert "node_fail" not in confirmed(answer)
