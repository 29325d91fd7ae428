"""Settings: text and JSON of scontrol, slurm.conf. Recorded on Slurm 22.05.8, 24.11.5 and 26.05.5."""

from __future__ import annotations

import math
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slurm_triage.case import from_files
from slurm_triage.model import Event, Setting, Unreadable
from slurm_triage.sources import Context
from slurm_triage.sources import scontrol_config as source

TEXT = """\
Configuration data as of 2026-11-30T15:14:00
AccountingStorageBackupHost = (null)
BatchStartTimeout       = 10 sec
ClusterName             = mini
Epilog[0]               = /probe/epilog.sh
Epilog[1]               = /probe/second.sh
EpilogMsgTime           = 2000 usec
KillWait                = 4 sec
MinJobAge               = 7200 sec
OverTimeLimit           = 0 min
PreemptMode             = GANG,SUSPEND
PreemptExemptTime       = 00:00:00
PrologEpilogTimeout     = 65534
PrologFlags             = Contain,RunInJob
SchedulerParameters     = batch_sched_delay=1,sched_interval=5,bf_interval=5
SLURM_VERSION           = 24.11.5
TaskPluginParam         = (null type)

Cgroup Support Configuration:
ConstrainRAMSpace       = yes

Slurmctld(primary) at ctl is UP
"""

JSON = """\
{
  "slurm_conf": {
    "ClusterName": "mini",
    "Epilog": [
      "\\/probe\\/epilog.sh"
    ],
    "EpilogTimeout": {
      "set": false,
      "infinite": false,
      "number": 0
    },
    "JobFileAppend": false,
    "JobRequeue": true,
    "KillWait": 4,
    "PreemptExemptTime": {
      "set": true,
      "infinite": false,
      "number": 0
    },
    "PreemptMode": [
      "REQUEUE"
    ],
    "PrologFlags": [],
    "SchedulerParameters": [
      "batch_sched_delay=1",
      "sched_interval=5"
    ]
  },
  "slurm_conf_meta": {
    "LastUpdate": 1796050451,
    "SLURM_VERSION": "26.05.5"
  }
}
"""

CONF = """\
# our cluster
ClusterName=mini
SlurmctldHost=ctl
KillWait=4   # seconds
minjobage=7200
SlurmctldParameters=preempt_send_user_signal,\\
enable_configless
Include /etc/slurm/nodes.conf
NodeName=c[1-2] CPUs=64 RealMemory=12000 State=UNKNOWN
PartitionName=DEFAULT MaxTime=INFINITE PreemptMode=OFF
PartitionName=main Nodes=c[1-2] Default=YES PriorityTier=10 State=UP
PartitionName=lowc8 Nodes=p[1-4] PriorityTier=1 PreemptMode=CANCEL GraceTime=8 State=UP
"""


def events(text: str | bytes) -> list[Event]:
    data = text if isinstance(text, bytes) else text.encode()
    case = from_files({"config": data, "manifest.toml": b'utc_offset = "+00:00"'})
    return list(source.parse(case.files[-1], Context(case.clock, case.manifest)))


def values(text: str, owner: str = "") -> dict[str, str]:
    found: dict[str, str] = {}
    for event in events(text):
        if isinstance(event, Setting) and event.owner == owner:
            found.setdefault(event.key, event.value)
    return found


def test_text() -> None:
    found = values(TEXT)
    assert found["KillWait"] == "4 sec"
    assert found["PreemptMode"] == "GANG,SUSPEND"
    assert found["PrologFlags"] == "Contain,RunInJob"
    assert found["SchedulerParameters"] == "batch_sched_delay=1,sched_interval=5,bf_interval=5"
    assert found["SLURM_VERSION"] == "24.11.5"
    assert found["TaskPluginParam"] == "(null type)"
    assert found["ConstrainRAMSpace"] == "yes"
    assert "AccountingStorageBackupHost" not in found and "EpilogMsgTime" not in found
    assert [e.value for e in events(TEXT) if isinstance(e, Setting) and e.key == "Epilog"] == [
        "/probe/epilog.sh",
        "/probe/second.sh",
    ]
    (wait,) = [e for e in events(TEXT) if isinstance(e, Setting) and e.key == "KillWait"]
    assert (wait.scope, wait.cite.line, wait.cite.text) == ("cluster", 8, "KillWait                = 4 sec")
    assert wait.at is not None and wait.at.zoned


def test_json() -> None:
    found = values(JSON)
    assert found["KillWait"] == "4"
    assert found["PreemptMode"] == "REQUEUE"
    assert found["PrologFlags"] == "(null)"
    assert found["EpilogTimeout"] == "(null)"
    assert found["PreemptExemptTime"] == "0"
    assert (found["JobRequeue"], found["JobFileAppend"]) == ("1", "0")
    assert found["Epilog"] == "/probe/epilog.sh"
    assert found["SchedulerParameters"] == "batch_sched_delay=1,sched_interval=5"
    assert found["SLURM_VERSION"] == "26.05.5"
    for event in events(JSON):
        assert isinstance(event, Setting)
        assert event.cite.text == JSON.splitlines()[event.cite.line - 1]
        assert f'"{event.key}"' in event.cite.text


@pytest.mark.parametrize("text", [JSON[: len(JSON) // 2], "{}", "[" * 100_000, '{"slurm_conf": 3}'])
def test_broken_json_is_unreadable(text: str) -> None:
    found = events('{"slurm_conf"\n' + text if text.startswith("[") else text + '\n"slurm_conf"')
    assert [type(e) for e in found] == [Unreadable]


def test_slurm_conf() -> None:
    found = values(CONF)
    assert found["KillWait"] == "4"
    assert found["MinJobAge"] == "7200"  # keys of slurm.conf have no case
    assert found["SlurmctldParameters"] == "preempt_send_user_signal,enable_configless"
    assert values(CONF, "lowc8") == {
        "MaxTime": "INFINITE",
        "PreemptMode": "CANCEL",
        "GraceTime": "8",
        "PriorityTier": "1",
    }
    assert values(CONF, "main") == {"MaxTime": "INFINITE", "PreemptMode": "OFF", "PriorityTier": "10"}
    assert values(CONF, "DEFAULT") == {}
    (bad,) = [e for e in events(CONF) if isinstance(e, Unreadable)]
    assert "/etc/slurm/nodes.conf" in bad.why


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("4 sec", 4.0),
        ("30", 30.0),
        ("0 min", 0.0),
        ("5 min", 300.0),
        ("2000 usec", 0.002),
        ("1000 ms", 1.0),
        ("00:00:08", 8.0),
        ("1-00:00:00", 86400.0),
        ("365-00:00:00", 31536000.0),
        ("1-12", 129600.0),
        ("10:00", 600.0),
        ("UNLIMITED", math.inf),
        ("INFINITE", math.inf),
        ("NONE", None),
        ("(null)", None),
        ("", None),
        ("65534", None),
        ("soon", None),
        ("-4", None),
    ],
)
def test_seconds(text: str, value: float | None) -> None:
    found = source.seconds(text)
    assert found == (pytest.approx(value) if value is not None else None)


def test_seconds_of_a_bare_number_of_minutes() -> None:
    assert source.seconds("1", bare=60) == 60.0
    assert source.seconds("1 min", bare=60) == 60.0


def test_recognise() -> None:
    assert source.recognise("scontrol-config.txt", TEXT.splitlines()) == 1.0
    assert source.recognise("scontrol-config.json", JSON.splitlines()) == 1.0
    assert source.recognise("slurm.conf", CONF.splitlines()) == 0.9
    assert source.recognise("x", ["SLURM_CLUSTER_NAME=mini", "SLURM_JOB_ID=1"]) == 0.0
    assert source.recognise("x", ["loss = 3", "lr = 4", "epoch = 5", "a = 1", "b = 1"]) == 0.0
    assert source.recognise("job.out", TEXT.splitlines()) <= 0.3


@given(
    st.binary(max_size=300)
    | st.lists(st.sampled_from([*TEXT.splitlines(True), *JSON.splitlines(True), *CONF.splitlines(True), "\0"])).map(
        lambda p: "".join(p).encode()
    )
)
@settings(max_examples=100, deadline=None)
def test_never_raises(data: bytes) -> None:
    source.recognise("x", data.decode("utf-8", "replace").split("\n"))
    for event in events(data):
        assert isinstance(event, (Setting, Unreadable))


@given(st.text(max_size=40) | st.from_regex(r"[0-9:-]{1,30}( sec| min)?", fullmatch=True))
@settings(max_examples=150)
def test_seconds_never_raises(text: str) -> None:
    found = source.seconds(text)
    assert found is None or found >= 0


@pytest.mark.parametrize("unit", ["a=", "PartitionName=x MaxTime=1 ", "KillWait=4 ", '"KillWait":', "\\\n", "1" * 9])
def test_linear_time(unit: str) -> None:
    begin = time.monotonic()
    events("ClusterName=x\n" + unit * ((1 << 20) // len(unit)))
    source.seconds(unit * ((1 << 20) // len(unit)))
    assert time.monotonic() - begin < 20
