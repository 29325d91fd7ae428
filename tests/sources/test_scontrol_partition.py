"""`scontrol show partition`, recorded on Slurm 24.11.5."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from slurm_triage.case import from_files
from slurm_triage.model import Event, Setting, Unreadable
from slurm_triage.sources import Context
from slurm_triage.sources import scontrol_partition as source

TEXT = """\
PartitionName=over
   AllowGroups=ALL AllowAccounts=ALL AllowQos=ALL
   AllocNodes=ALL Default=NO QoS=N/A
   DefaultTime=NONE DisableRootJobs=NO ExclusiveUser=NO ExclusiveTopo=NO GraceTime=0 Hidden=NO
   MaxNodes=UNLIMITED MaxTime=UNLIMITED MinNodes=0 LLN=NO MaxCPUsPerNode=UNLIMITED MaxCPUsPerSocket=UNLIMITED
   Nodes=c[1-2]
   PriorityJobFactor=1 PriorityTier=10 RootOnly=NO ReqResv=NO OverSubscribe=NO
   OverTimeLimit=1 PreemptMode=OFF
   State=UP TotalCPUs=128 TotalNodes=2 SelectTypeParameters=NONE

PartitionName=lowc8
   AllowGroups=ALL AllowAccounts=ALL AllowQos=ALL
   DefaultTime=NONE DisableRootJobs=NO ExclusiveUser=NO ExclusiveTopo=NO GraceTime=8 Hidden=NO
   PriorityJobFactor=1 PriorityTier=1 RootOnly=NO ReqResv=NO OverSubscribe=FORCE:2
   OverTimeLimit=NONE PreemptMode=CANCEL
   State=UP TotalCPUs=16 TotalNodes=4 SelectTypeParameters=NONE
"""


def events(text: str | bytes) -> list[Event]:
    data = text if isinstance(text, bytes) else text.encode()
    case = from_files({"p": data})
    return list(source.parse(case.files[0], Context(case.clock, case.manifest)))


def values(text: str, owner: str) -> dict[str, str]:
    return {e.key: e.value for e in events(text) if isinstance(e, Setting) and e.owner == owner}


def test_partitions() -> None:
    assert values(TEXT, "over") == {
        "GraceTime": "0",
        "MaxTime": "UNLIMITED",
        "PriorityTier": "10",
        "OverSubscribe": "NO",
        "OverTimeLimit": "1",
        "PreemptMode": "OFF",
    }
    low = values(TEXT, "lowc8")
    assert (low["GraceTime"], low["PreemptMode"], low["OverSubscribe"]) == ("8", "CANCEL", "FORCE:2")
    assert "MaxTime" not in low
    for event in events(TEXT):
        assert isinstance(event, Setting) and event.scope == "partition"
        assert event.cite.text == TEXT.splitlines()[event.cite.line - 1]
        assert f"{event.key}={event.value}" in event.cite.text


def test_one_line_form_says_the_same() -> None:
    single = "\n".join(" ".join(line.strip() for line in part.splitlines()) for part in TEXT.split("\n\n"))
    assert values(single, "over") == values(TEXT, "over")
    assert values(single, "lowc8") == values(TEXT, "lowc8")


def test_a_setting_without_a_partition_belongs_to_none() -> None:
    found = events("   OverTimeLimit=NONE PreemptMode=CANCEL\n")
    assert found and all(isinstance(e, Unreadable) for e in found)


def test_recognise() -> None:
    assert source.recognise("scontrol-partition.txt", TEXT.splitlines()) == 1.0
    assert source.recognise("slurm.conf", ["PartitionName=main Nodes=c[1-2] Default=YES"]) < 0.5
    assert source.recognise("x", ["NodeName=c1 Arch=x86_64", "   Partitions=main"]) == 0.0
    assert source.recognise("job.out", TEXT.splitlines()) <= 0.3


@given(
    st.binary(max_size=300) | st.lists(st.sampled_from([*TEXT.split(), "\n", "\0"])).map(lambda p: " ".join(p).encode())
)
@settings(max_examples=100, deadline=None)
def test_never_raises(data: bytes) -> None:
    source.recognise("x", data.decode("utf-8", "replace").split("\n"))
    for event in events(data):
        assert isinstance(event, (Setting, Unreadable))


def test_long_line() -> None:
    found = events("PartitionName=x " + "GraceTime=" * (1 << 17) + "\0")
    assert all(isinstance(e, Setting) for e in found)
