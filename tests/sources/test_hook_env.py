"""Environments of the hooks, recorded on Slurm 22.05.8 and 24.11.5; forged ones by hand."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slurm_triage.case import from_files
from slurm_triage.model import Event, HookEnv, Unreadable
from slurm_triage.sources import Context
from slurm_triage.sources import hook_env as source

NODE = """\
PWD=/var/log
SLURMD_NODENAME=r1
SLURM_CLUSTER_NAME=mini
SLURM_CONF=/etc/slurm/slurm.conf
SLURM_JOBID=1004
SLURM_JOB_DERIVED_EC=0
SLURM_JOB_END_TIME=1796051466
SLURM_JOB_EXIT_CODE2=0:0
SLURM_JOB_EXIT_CODE=0
SLURM_JOB_ID=1004
SLURM_JOB_START_TIME=1796051440
SLURM_JOB_STDOUT=/shared/out/%j.out
SLURM_SCRIPT_CONTEXT=epilog_slurmd
"""
CONTROLLER = """\
SLURM_JOBID=1104
SLURM_JOB_EXIT_CODE2=5:0
SLURM_JOB_EXIT_CODE=1280
SLURM_JOB_ID=1104
SLURM_JOB_NAME=fold
SLURM_JOB_STDOUT=/shared/out/%j.out
SLURM_SCRIPT_CONTEXT=epilog_slurmctld
"""


def events(text: str | bytes, manifest: str = "") -> list[Event]:
    data = text if isinstance(text, bytes) else text.encode()
    case = from_files({"env.txt": data, "manifest.toml": manifest.encode()})
    return list(source.parse(case.files[0], Context(case.clock, case.manifest)))


def env(text: str | bytes) -> HookEnv:
    (found,) = [e for e in events(text) if isinstance(e, HookEnv)]
    return found


def nul(text: str) -> str:
    return text.replace("\n", "\0")


def test_node() -> None:
    found = env(NODE)
    assert [type(e) for e in events(NODE)] == [HookEnv]
    assert (found.hook, found.node, found.job, found.forgeable) == ("epilog_slurmd", "r1", "1004", True)
    assert "PWD" not in found.values
    assert found.values["SLURM_JOB_STDOUT"] == "/shared/out/%j.out"
    assert found.start is not None and (found.start.lo, found.start.hi) == (1796051440.0, 1796051441.0)
    assert found.end is not None and found.end.zoned and found.end.lo == 1796051466.0
    assert found.values.keys() == found.cites.keys()
    for key, cite in found.cites.items():
        assert cite.text == f"{key}={found.values[key]}" == NODE.splitlines()[cite.line - 1]
        assert cite.node == "r1"


def test_controller_without_times() -> None:
    found = env(CONTROLLER)
    assert (found.hook, found.node, found.job) == ("epilog_slurmctld", None, "1104")
    assert found.start is None and found.end is None
    assert found.values["SLURM_JOB_EXIT_CODE"] == "1280"


def test_hook_without_context() -> None:
    assert env(NODE.replace("SLURM_SCRIPT_CONTEXT=epilog_slurmd\n", "")).hook == "epilog_slurmd"
    assert env(CONTROLLER.replace("SLURM_SCRIPT_CONTEXT=epilog_slurmctld\n", "")).hook == "epilog_slurmctld"
    assert env("SLURM_JOB_ID=1\n").hook == ""
    assert env("SLURM_JOB_ID=1\nSLURMD_NODENAME=a\nSLURM_JOB_NAME=b\n").hook == ""


def test_kept_variables() -> None:
    found = env(
        "SLURM_JOB_ID=1\nCUDA_VISIBLE_DEVICES=0,3\nKUBERNETES_PORT=x\nGPU_DEVICE_ORDINAL=0\nAWS_SECRET=s\nXSLURM=1\n"
    )
    assert set(found.values) == {"SLURM_JOB_ID", "CUDA_VISIBLE_DEVICES", "KUBERNETES_PORT", "GPU_DEVICE_ORDINAL"}


@pytest.mark.parametrize("forged_first", [True, False])
def test_forged_variable_is_left_out_and_named(forged_first: bool) -> None:
    name = "SLURM_JOB_NAME=a\nSLURM_JOB_EXIT_CODE2=0:0\n"
    rest = CONTROLLER.replace("SLURM_JOB_NAME=fold\n", "")
    found = events(name + rest if forged_first else rest + name)
    (hook,) = [e for e in found if isinstance(e, HookEnv)]
    (bad,) = [e for e in found if isinstance(e, Unreadable)]
    assert "SLURM_JOB_EXIT_CODE2" not in hook.values and "SLURM_JOB_EXIT_CODE2" not in hook.cites
    assert hook.values["SLURM_JOB_EXIT_CODE"] == "1280"
    assert "SLURM_JOB_EXIT_CODE2" in bad.why and bad.job == "1104"


def test_forged_context_and_job_are_not_used() -> None:
    found = env(CONTROLLER + "SLURM_SCRIPT_CONTEXT=epilog_slurmd\nSLURM_JOB_ID=7\n")
    assert found.hook == "epilog_slurmctld"  # SLURM_JOB_NAME is there, SLURMD_NODENAME is not
    assert found.job == "1104"  # from SLURM_JOBID
    assert "SLURM_SCRIPT_CONTEXT" not in found.values


def test_forged_node_on_the_controller_is_not_used() -> None:
    found = events(CONTROLLER + "SLURMD_NODENAME=n1\n")
    (hook,) = [e for e in found if isinstance(e, HookEnv)]
    assert hook.node is None and "SLURMD_NODENAME" not in hook.values
    assert any(isinstance(e, Unreadable) and "SLURMD_NODENAME" in e.why for e in found)


def test_same_value_twice_is_no_forgery() -> None:
    assert [type(e) for e in events(NODE + "SLURM_JOB_ID=1004\n")] == [HookEnv]


def test_nul_form_cannot_be_forged() -> None:
    text = nul(CONTROLLER).replace("=fold", "=fold\nSLURM_JOB_EXIT_CODE2=0:0\nSLURM_JOB_ID=7")
    found = env(text)
    assert [type(e) for e in events(text)] == [HookEnv]
    assert found.forgeable is False
    assert (found.job, found.values["SLURM_JOB_EXIT_CODE2"]) == ("1104", "5:0")
    assert found.values["SLURM_JOB_NAME"] == "fold\nSLURM_JOB_EXIT_CODE2=0:0\nSLURM_JOB_ID=7"
    assert found.cites["SLURM_JOB_ID"].line == 4  # the number of the record


TICKET = nul("SLURM_TRIAGE_TIME=1796051467.123456789\nSLURM_TRIAGE_BOOT_ID=7c5f\nSLURM_TRIAGE_WHY=tasks,exit\n" + NODE)


def test_ticket_of_the_plugin() -> None:
    found = env(TICKET)
    assert [type(e) for e in events(TICKET)] == [HookEnv]
    assert found.values["SLURM_TRIAGE_WHY"] == "tasks,exit"
    assert found.at is not None and found.at.lo == pytest.approx(1796051467.122) and found.at.zoned


def test_time_of_a_ticket_is_not_believed_where_it_can_be_forged() -> None:
    assert env(TICKET.replace("\0", "\n")).at is None
    assert env(TICKET.replace("1796051467.123456789", "soon")).at is None


@pytest.mark.parametrize("length", range(1, len("SLURM_JOB_END_TIME=1796051466")))
def test_cut_ticket_keeps_the_whole_variables(length: int) -> None:
    whole = nul("SLURM_JOB_ID=1004\nSLURM_SCRIPT_CONTEXT=epilog_slurmd\n")
    bad, found = events(whole + "SLURM_JOB_END_TIME=1796051466"[:length])
    assert isinstance(bad, Unreadable) and bad.why.startswith("cut") and bad.cite.line == 3
    assert isinstance(found, HookEnv)
    assert set(found.values) == {"SLURM_JOB_ID", "SLURM_SCRIPT_CONTEXT"} and found.end is None


def test_ticket_cut_in_its_first_variable() -> None:
    found = events("SLURM_TRIAGE_TIME=17960", 'env_format = "nul"')
    assert all(isinstance(e, Unreadable) for e in found) and found


@pytest.mark.parametrize("value", ["0", "soon", "-1", "9" * 40, ""])
def test_odd_times_are_none(value: str) -> None:
    assert env(f"SLURM_JOB_ID=1\nSLURM_JOB_END_TIME={value}\n").end is None


def test_nothing_of_slurm() -> None:
    assert [type(e) for e in events("PATH=/bin\n")] == [Unreadable]
    assert [type(e) for e in events("")] == [Unreadable]


def test_recognise() -> None:
    assert source.recognise("env.epilog.r1.txt", NODE.splitlines()) == 1.0
    assert source.recognise("environ", [nul(CONTROLLER)]) == 1.0
    assert source.recognise("x", CONTROLLER.replace("SLURM_SCRIPT_CONTEXT=epilog_slurmctld\n", "").splitlines()) == 0.8
    # the environment of a job, not of a hook
    assert source.recognise("x", ["SLURM_JOB_ID=1", "SLURM_JOB_NAME=a", "HOME=/home/a"]) == 0.0
    assert source.recognise("x", ["SLURM_JOB_ID=1", "SLURM_SCRIPT_CONTEXT=epilog_task"]) == 0.0
    assert source.recognise("1004.out", NODE.splitlines()) <= 0.3
    assert source.recognise("x", [*["step 1 loss 2"] * 40, *NODE.splitlines()]) == 0.0


PIECES = [*NODE.splitlines(True), *CONTROLLER.splitlines(True), "\0", "=", "SLURM", "\n"]


@given(st.binary(max_size=300) | st.lists(st.sampled_from(PIECES)).map(lambda p: "".join(p).encode()))
@settings(max_examples=100, deadline=None)
def test_never_raises(data: bytes) -> None:
    source.recognise("x", data.decode("utf-8", "replace").split("\n"))
    found = events(data)
    assert sum(isinstance(e, HookEnv) for e in found) <= 1
    for event in found:
        if isinstance(event, HookEnv):
            assert event.values.keys() == event.cites.keys()


@pytest.mark.parametrize("unit", ["SLURM_A=", "\0", "SLURM\0", "SLURM_JOB_ID=1\n", "a"])
def test_linear_time(unit: str) -> None:
    begin = time.monotonic()
    assert events(unit * ((1 << 20) // len(unit)))
    assert time.monotonic() - begin < 20
