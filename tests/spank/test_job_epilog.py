"""job_epilog: the node's ticket, and for which jobs there is none."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import pytest

from tests.spank.conftest import Node


def tickets(node: Node) -> dict[str, list[str]]:
    return {
        name: content.decode("utf-8", "surrogateescape").split("\0")
        for name, content in node.files().items()
        if name.endswith(".spank")
    }


def test_a_clean_job_leaves_nothing(node: Node) -> None:
    node.call(
        *("task:status=0", "epilog:job=7"),
        SLURM_JOB_ID="7", SLURM_JOB_EXIT_CODE="0", SLURM_JOB_EXIT_CODE2="0:0", SLURM_JOB_DERIVED_EC="0",
    )  # fmt: skip
    assert node.files() == {}


@pytest.mark.parametrize(
    "variables",
    [{"SLURM_JOB_EXIT_CODE": "256"}, {"SLURM_JOB_EXIT_CODE2": "0:125"}, {"SLURM_JOB_DERIVED_EC": "9"}],
)
def test_an_exit_code_makes_a_ticket(node: Node, variables: dict[str, str]) -> None:
    node.call("epilog:job=7", **{"SLURM_JOB_ID": "7", "SLURM_JOB_EXIT_CODE": "0", **variables})
    ((name, ticket),) = tickets(node).items()
    assert name.startswith("new/7.1001.")
    assert ticket[0].startswith("SLURM_TRIAGE_TIME=") and ticket[2] == "SLURM_TRIAGE_WHY=exit" and ticket[-1] == ""
    assert {f"{key}={value}" for key, value in variables.items()} <= set(ticket)


def test_task_records_are_moved_and_make_a_ticket_even_with_exit_code_0(node: Node) -> None:
    node.call("task:status=15", "epilog:job=7", SLURM_JOB_ID="7", SLURM_JOB_EXIT_CODE="0")
    names = sorted(node.files())
    assert [n.rsplit(".", 1)[1] for n in names] == ["spank", "tasks"] and names[0][:-6] == names[1][:-6]
    assert "SLURM_TRIAGE_WHY=tasks" in tickets(node)[names[0]]


def test_the_attempts_of_a_requeued_job_stay_apart(node: Node) -> None:
    for _ in range(2):
        node.call("task:status=15", "epilog:job=7")
    names = sorted(node.files())
    assert len(names) == 4 and not list((node.spool / "tmp").iterdir())


BATCH, EXTERN = 0xFFFFFFFB, 0xFFFFFFFC


@pytest.mark.parametrize("step", ["0", "batch", "extern"])
def test_with_runinjob_the_last_step_writes_the_ticket(node: Node, step: str) -> None:
    shutil.rmtree(node.root / "cgroup")
    for name in ("extern", step):  # the second is the one that ends
        node.cgroup_v2(7, name, {0: 0})
    number = {"0": 0, "batch": BATCH, "extern": EXTERN}[step]
    calls = (f"task:status=15,step={number}",) if step != "extern" else ()
    if step == "extern":
        (node.spool / "tmp").mkdir(mode=0o700)
        (node.spool / "tmp" / "7.tasks").write_text("of another process\n")
    node.call("runinjob", *calls, f"exit:step={number}", SLURM_JOB_EXIT_CODE="9", SLURM_JOB_UID="0")
    ((name, ticket),) = tickets(node).items()
    assert sorted(n.rsplit(".", 1)[1] for n in node.files()) == ["spank", "tasks"] and name.startswith("new/7.1001.")
    assert ticket[2:-2] == ["SLURM_TRIAGE_WHY=tasks", "SLURM_JOB_ID=7", "SLURM_JOB_UID=1001", "SLURM_JOB_GID=1002"]
    assert ticket[-2].startswith("SLURMD_NODENAME=") and ticket[-1] == ""


@pytest.mark.parametrize("step", [0, 0xFFFFFFFC])
def test_no_step_does_while_another_runs(node: Node, step: int) -> None:
    node.cgroup_v2(7, "batch", {0: 0})
    node.cgroup_v2(7, "extern", {})
    node.cgroup_v2(7, "0", {0: 0})
    node.call("runinjob", "task:status=15,step=0", f"exit:step={step}")
    assert list(node.files()) == ["tmp/7.tasks"]


@pytest.mark.parametrize(("call", "kept"), [("exit:step=0", "tmp/7.tasks"), (f"exit:step={0xFFFFFFFC}", None)])
def test_without_cgroups_it_is_the_external_step(node: Node, call: str, kept: str | None) -> None:
    (node.root / "self_cgroup").write_text("0::/\n")
    node.call("runinjob", "task:status=15", call)
    assert (list(node.files()) == [kept]) if kept else (len(tickets(node)) == 1)


def test_a_step_that_knows_nothing_does_not(node: Node) -> None:
    node.call("task:status=15")
    for call in ("exit:step=0", f"exit:step={BATCH}", f"exit:step={EXTERN},silent=1"):
        node.call("runinjob", call)
    assert list(node.files()) == ["tmp/7.tasks"]


def test_without_runinjob_no_step_does(node: Node) -> None:
    node.call("task:status=15", f"exit:step={EXTERN}")
    assert list(node.files()) == ["tmp/7.tasks"]


def test_a_clean_job_with_runinjob_leaves_nothing(node: Node) -> None:
    node.call("runinjob", "task:status=0", f"exit:step={EXTERN}")
    assert node.files() == {}


def test_other_jobs_on_the_node_are_left_alone(node: Node) -> None:
    node.call("task:job=70,status=9", "epilog:job=7,status=0")
    assert list(node.files()) == ["tmp/70.tasks"]


def test_values_with_newlines_forge_nothing_and_a_huge_environment_is_cut_between_variables(node: Node) -> None:
    huge = {f"X{number}": "y" * 100_000 for number in range(10)}
    node.call("epilog:job=7", SLURM_JOB_EXIT_CODE="9", SLURM_JOB_COMMENT="a\nSLURM_JOB_UID=0", **huge)
    ((_, ticket),) = tickets(node).items()
    assert "SLURM_JOB_COMMENT=a\nSLURM_JOB_UID=0" in ticket and "SLURM_JOB_UID=0" not in ticket
    assert ticket[-1] == "" and sum(len(v) + 1 for v in ticket) - 1 <= 65536


def test_a_user_cannot_push_slurms_variables_out_of_the_ticket(node: Node) -> None:
    """What a user sets with a plugin of his own comes as SPANK_..., before the variables of Slurm."""
    node.call("epilog:job=7", SPANK_A="x" * 60_000, SPANK_B="x" * 60_000, SLURM_JOB_ID="7", SLURM_JOB_EXIT_CODE="9")
    ((_, ticket),) = tickets(node).items()
    assert {"SLURM_JOB_ID=7", "SLURM_JOB_EXIT_CODE=9", "SLURM_TRIAGE_CUT=1"} <= set(ticket)


SIGNS = [
    "NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.",
    "nvidia-nvswitch3: SXid (PCI:0000:c3:00.0): 20034, Fatal, Link 30 LTSSM Fault Up",
    "mce: [Hardware Error]: Machine check events logged",
    "{12}[Hardware Error]: Hardware error from APEI Generic Hardware Error Source: 0",
    "EDAC MC0: 1 CE memory read error on CPU_SrcID#0_MC#0_Chan#0_DIMM#0",
    "Memory failure: 0x1b2f3: recovery action for dirty LRU page: Recovered",
]
NAMES = [
    "NVRM: Xid (PCI:[3863]: segfault at 0 ip 0000000000401136 sp 00007ffd error 6 in x[401000+1000]",
    "NVRM: Xid ([3863]: segfault at 0",
    "EDAC MC0: 1 CE [77]: segfault at 0",
    "nvidia-nvswitch[7]: segfault at 0",
    "traps: NVRM: Xid (PCI:[12] trap invalid opcode ip:55 sp:7f error:0 in a[55+1]",
    "Memory cgroup out of memory: Killed process 12 (EDAC MC0: 1 CE ) total-vm:1kB",
    "process '/tmp/NVRM: Xid (PCI:0000' started with executable stack",
]


@pytest.mark.parametrize("text", NAMES)
def test_a_process_name_is_no_kernel_sign(node: Node, tmp_path: Path, text: str) -> None:
    (tmp_path / "log").write_text(f"<6>[  200.000000] {text}\n")
    assert node.call(f"sign:100,{tmp_path / 'log'}").strip() == "none"


@pytest.mark.parametrize("text", SIGNS)
def test_a_kernel_sign_since_the_job_began(node: Node, tmp_path: Path, text: str) -> None:
    log = tmp_path / "log"

    def said(content: str, since: float = 100) -> str:
        log.write_text(content)
        return node.call(f"sign:{since},{log}").strip()

    assert said(f"<6>[   99.000000] eth0: up\n<4>[  123.456789] {text}\n") == "sign"
    assert said(f"<4>[   99.900000] {text}\n<6>[  123.000000] eth0: up\n") == "none"  # before the job
    assert said(f"<12>[  123.456789] {text}\n") == "none"  # a process wrote it into the log
    assert said(f"<4>{text}\n") == "none"  # no time
    assert said("<4>[\n<4>[ 1") == "none" and said("<") == "none" and said("") == "none"
    assert said(f"tail of a line\n<4>[  200.000001] {text}") == "sign"


def test_the_real_kernel_log_is_asked_for_a_job_that_just_began(node: Node) -> None:
    node.call("epilog:job=7", SLURM_JOB_EXIT_CODE="0", SLURM_JOB_START_TIME=str(int(time.time()) - 1))
    assert not tickets(node)  # this machine had no hardware error within the last two seconds
    node.call("epilog:job=7", SLURM_JOB_EXIT_CODE="0", SLURM_JOB_START_TIME="soon")
    assert not tickets(node)
