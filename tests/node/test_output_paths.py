"""Where the diagnosis goes: patterns as Slurm fills them in, held against what slurmctld told of recorded jobs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

import pytest

from slurm_triage.node.job import Job
from slurm_triage.node.output_paths import directories, directory, expand
from slurm_triage.spool import variables
from tests.corpus.load import cases

JOB = Job(
    *("1003", "c1", 1001, 1001),
    user="user1", name="prep", array=("1001", "4"), work_dir="/home/user1", nodes="c[1-2]", batch_host=True,
)  # fmt: skip
STRANGER = replace(JOB, name="", array=None, user="", nodes="", batch_host=False)
"""A job of which there is a ticket with paths only."""
ALONE = replace(JOB, array=None)


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        ("/o/%x/%A_%a.out", "/o/prep/1001_4.out"),
        ("/o/%J-%4j-%b.out", "/o/1003-1003-4.out"),
        ("%N/%u/%n%t", "/home/user1/c1/user1/00"),
        ("run.out", "/home/user1/run.out"),
        ("./a/../run.out", "/home/user1/./a/../run.out"),
        ("/o/\\%x", "/o/%x"),
        ("\\%x", None),
        ("/o/%s", None),
        ("/o/%q", None),
        ("none", "/dev/null"),
        ("NULL", "/dev/null"),
        ("/dev/null", "/dev/null"),
        ("", None),
        ("3", None),
        ("/o/" + "x" * 4096, None),
        ("/o/%x" * 20 + "/" + "x" * 4000, None),
        ("/o/a\0b", None),
    ],
)
def test_what_a_pattern_stands_for(pattern: str, path: str | None) -> None:
    assert expand(pattern, JOB) == path


def test_what_the_node_does_not_know_it_does_not_guess() -> None:
    """Without task records a job may be the task of an array, whose %A is another number than its own."""
    for letter in "AabxuNs":
        assert expand(f"/o/%{letter}", STRANGER) is None
    assert expand("/o/%j", STRANGER) == "/o/1003"
    assert expand("run.out", replace(JOB, work_dir="")) is None
    assert expand("run.out", replace(JOB, work_dir="user1")) is None


def test_of_a_job_that_is_no_array() -> None:
    assert expand("/o/%A_%a_%b", ALONE) == "/o/1003_4294967294_4"


def test_the_node_is_that_of_the_batch_script() -> None:
    assert expand("/o/%N", replace(JOB, node="c2", batch_host=False)) == "/o/c1"
    assert expand("/o/%N", replace(JOB, node="c1.example.org")) == "/o/c1"
    assert expand("/o/%N", replace(JOB, node="c2", nodes="None assigned", batch_host=False)) is None


@pytest.mark.parametrize(
    ("stdout", "stderr", "where"),
    [
        ("/o/%x/%s.out", "", ["/o/prep", "/home/user1"]),
        ("%s.out", "", ["/home/user1"]),
        ("slurm-%s/%s.out", "", ["/home/user1"]),
        ("logs/%s.out", "", ["/home/user1/logs", "/home/user1"]),
        ("/%s.out", "", ["/", "/home/user1"]),
        ("/o/%s/a.out", "/e/%s.err", ["/e", "/home/user1"]),
        ("/dev/null", "/e/x", ["/e", "/home/user1"]),
        ("none", "/dev/stderr", ["/home/user1"]),
        ("/o/\\\\a/x", "", ["/home/user1"]),
        ("/o/\\%s/x", "", ["/o/%s", "/home/user1"]),
        ("", "", ["/home/user1"]),
        ("7", "", ["/home/user1"]),
    ],
)
def test_the_directory(stdout: str, stderr: str, where: list[str]) -> None:
    job = replace(JOB, stdout=stdout, stderr=stderr)
    assert directories(job) == where and directory(job) == where[0]


def test_no_directory_at_all() -> None:
    assert directory(replace(JOB, work_dir="", stdout="%j.out")) is None
    assert directories(replace(JOB, work_dir="relative", stdout="/o/x")) == ["/o"]


def test_a_job_name_with_a_slash_makes_directories() -> None:
    job = replace(JOB, name="../a/b", stdout="/o/%x.out")
    assert expand(job.stdout, job) == "/o/../a/b.out" and directory(job) == "/o/../a"


def test_a_job_name_may_hold_anything() -> None:
    job = replace(JOB, name="a\nb %j \x1b[0m \\", stdout="/o/%x/%j.out")
    assert expand(job.stdout, job) == "/o/a\nb %j \x1b[0m \\/1003.out"  # what it stands for is not filled in again
    assert directory(replace(JOB, name="x" * 5000, stdout="/o/%x/%j")) == "/home/user1"


# ------------------------------------------------------------------------------------------------ recorded jobs


def told(corpus: str) -> Iterator[tuple[str, Job, str]]:
    """(case, job as the node's ticket and the task records would have it, StdOut as scontrol printed it) of a corpus."""
    for case, files, _ in cases(corpus):
        shown = b"".join(data for name, data in files.items() if name.startswith("scontrol_show_job")).decode()
        for name, data in files.items():
            mine = re.fullmatch(r"env\.epilog\.([a-z]\d+)(?:\.(\d+))?\.txt", name)
            if not mine:
                continue
            env = variables(data.replace(b"\n", b"\0"))
            other = f"env.epilog_slurmctld.{mine[2]}.txt" if mine[2] else "env.epilog_slurmctld.txt"
            ctld = variables(files.get(other, b"").replace(b"\n", b"\0"))
            path = re.search(
                rf"^JobId={env.get('SLURM_JOB_ID')} .*?\n\s+StdOut=(.*?)\n", shown, re.DOTALL | re.MULTILINE
            )
            if not path or ctld.get("SLURM_JOB_ID") != env.get("SLURM_JOB_ID") or "JobName" not in shown:
                continue
            array = (ctld["SLURM_ARRAY_JOB_ID"], ctld["SLURM_ARRAY_TASK_ID"]) if "SLURM_ARRAY_TASK_ID" in ctld else None
            yield (
                case,
                Job(
                    *(env["SLURM_JOB_ID"], mine[1], 1001, 1001),
                    user=env["SLURM_JOB_USER"], name=ctld["SLURM_JOB_NAME"], array=array,
                    work_dir=env["SLURM_JOB_WORK_DIR"], stdout=env["SLURM_JOB_STDOUT"],
                    nodes=env.get("SLURM_JOB_NODELIST") or env.get("SLURM_NODELIST") or ctld.get("SLURM_JOB_NODELIST", ""),
                ),
                path[1],
            )  # fmt: skip


@pytest.mark.parametrize("corpus", ["recorded-22.05", "recorded-24.11", "recorded-26.05"])
def test_slurmctld_says_the_same(corpus: str) -> None:
    seen = []
    for case, job, path in told(corpus):
        if "%" not in path.replace("50%.out", ""):  # 24.11 leaves %N, 22.05 all but %j, %x and %u
            assert expand(job.stdout, job) == path, case
            seen.append(case)
        assert directory(job) == path.rsplit("/", 1)[0], case
        assert directory(replace(job, name="", array=None)) == path.rsplit("/", 1)[0], case
    assert len(set(seen)) > 50
    assert any("pattern_x_j" in case for case in seen)
    assert any("pattern_u_quoted" in case for case in seen) or corpus == "recorded-22.05"
