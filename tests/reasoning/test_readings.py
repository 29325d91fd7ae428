"""What the agent measured on a node supports what other witnesses say; alone it explains no end."""

from __future__ import annotations

import pytest

from slurm_triage.attempts import split
from slurm_triage.case import from_files
from slurm_triage.engine import diagnose
from slurm_triage.facts import Job
from slurm_triage.model import Reading, Unreadable
from slurm_triage.sources import parse
from tests.reasoning.build import CONFIG, EPOCH, KEY_ERROR, XID_79, job, manifest, sacct, step

HEAD = f"# slurm-triage readings 1 node=c1 at={EPOCH + 200:.3f}\n"
UUID = "GPU-01234567-89ab-cdef-0123-456789abcdef"
FAILED = sacct(job("FAILED", "1:0"), step("batch", "FAILED", "1:0"))


def facts(**files: str) -> Job:
    named = {name.replace("_", ".", 2): text.encode() for name, text in files.items()}
    case = from_files({"sacct.psv": FAILED.encode(), "manifest.toml": manifest().encode(), **named})
    (attempt,) = split(*parse(case))
    return Job(attempt)


def counters(*lines: str, head: str = HEAD) -> Job:
    return facts(counters_c1_txt=head + "".join(f"{line}\n" for line in lines))


def test_a_counter_that_grew_is_said_and_one_that_did_not_is_unknown() -> None:
    grew = counters("counter name=edac/mc0/ue now=2 grew=1 since=1796000000.000").machine.grew("x", "edac", "ue")
    assert grew.holds and grew.cites[0].text.startswith("counter name=edac/mc0/ue")
    other = counters("counter name=edac/mc0/ce now=2 grew=1 since=1", "counter name=aer/x/ue now=1 grew=1 since=1")
    assert other.machine.grew("x", "edac", "ue").holds is None
    assert counters("baseline counters=40 since=1796000000.000").machine.grew("x", "edac", "ce").holds is None


def test_readings_of_another_node_are_not_the_jobs() -> None:
    head = HEAD.replace("node=c1", "node=c9")
    assert counters("counter name=edac/mc0/ue now=2 grew=1 since=1", head=head).machine.readings == ()


def test_grown_counters_do_not_make_a_cause() -> None:
    text = HEAD + "counter name=edac/mc0/ue now=2 grew=1 since=1\ncounter name=edac/mc0/ce now=2 grew=1 since=1\n"
    files = {"sacct.psv": FAILED, "job.out": KEY_ERROR, "scontrol-config.txt": CONFIG, "manifest.toml": manifest()}
    plain = diagnose(from_files({name: said.encode() for name, said in files.items()}))
    more = diagnose(from_files({name: said.encode() for name, said in {**files, "counters.c1.txt": text}.items()}))
    assert (plain.cause, plain.strength) == (more.cause, more.strength)
    assert not [v for v in more.also if v.cause.startswith("memory_ecc")]


@pytest.mark.parametrize("pci", ["0000:c1:00.0", "00000000:C1:00.0"])
def test_a_lost_gpu_is_told_by_its_uuid(pci: str) -> None:
    listed = f'{HEAD}gpu pci={pci} model="NVIDIA H100" uuid={UUID} minor=3 state=gone\n'
    files = {
        "sacct.psv": FAILED,
        "kmsg.c1.txt": f"[ 1090.000000] {XID_79}\n",
        "gpu.c1.txt": listed,
        "manifest.toml": manifest(),
    }
    found = diagnose(from_files({name: text.encode() for name, text in files.items()}))
    assert found.cause == "gpu_fallen_off_bus"
    assert f"GPU 0000:c1:00 ({UUID}) on c1" in found.summary
    other = diagnose(
        from_files(
            {n: t.replace("c1:00.0", "c2:00.0").replace("C1:00.0", "C2:00.0").encode() for n, t in files.items()}
        )
    )
    assert "GPU-" not in other.summary


@pytest.mark.parametrize(
    ("values", "full"),
    [
        ("size=1000 free=10", True),
        ("size=1000 free=500", False),
        ("size=1000 free=500 files=100 files_free=0", True),
        ("size=0 free=0", False),
        ("size=x free=0", False),
        ("free=0", False),
    ],
)
def test_full_means_no_room_or_no_inodes(values: str, full: bool) -> None:
    machine = facts(filesystems_c1_txt=f'{HEAD}file_system path="/tmp" type=ext4 {values}\n').machine
    assert bool(machine.full("/tmp")) is full
    assert not machine.full("/var")


@pytest.mark.parametrize(
    "line",
    [
        "nonsense",
        "counter",
        "gpu =x",
        "evil a=b",
        "counter name=" + "x" * 5000,
        'gpu uuid="' + "\\\\" * 3000,
        'file_system path="\\ud800"',
    ],
)
def test_odd_lines_stop_no_other(line: str) -> None:
    text = f"{HEAD}{line}\ncounter name=edac/mc0/ue now=2 grew=1 since=1\n"
    events = parse(from_files({"counters.c1.txt": text.encode("utf-8", "replace")}))[0]
    assert all(isinstance(event, (Reading, Unreadable)) for event in events)
    assert [e.values["name"] for e in events if isinstance(e, Reading) and e.what == "counter"][-1] == "edac/mc0/ue"


def test_a_job_that_prints_readings_says_nothing_of_its_node() -> None:
    text = f"{HEAD}counter name=edac/mc0/ue now=2 grew=1 since=1\n"
    assert not [e for e in parse(from_files({"job.out": text.encode()}))[0] if isinstance(e, Reading)]
