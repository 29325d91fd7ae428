"""Pasted material: cut into parts, whose words they are, line numbers of the user's file."""

from __future__ import annotations

import io
import json
import time
from pathlib import Path

import pytest

from slurm_triage import case, cli, live
from slurm_triage.case import EvidenceFile
from slurm_triage.engine import diagnose as diagnose_folder
from slurm_triage.model import Diagnosis
from slurm_triage.paste import diagnose, gather, parts_of
from slurm_triage.sources import recognise
from tests.corpus.load import cases

TABLE = """\
JobID           JobName      State ExitCode
------------ ---------- ---------- --------
17                train OUT_OF_ME+    0:125
17.batch          batch OUT_OF_ME+    0:125
"""
KERNEL = """\
[ 1234.567890] python3 invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0
[ 1234.567990] oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=step_0,mems_allowed=0,oom_memcg=/slurm/uid_1001/job_17,task_memcg=/slurm/uid_1001/job_17/step_batch,task=python3,pid=4242,uid=1001
[ 1234.568000] Memory cgroup out of memory: Killed process 4242 (python3) total-vm:2000000kB, anon-rss:1000000kB, file-rss:0kB, shmem-rss:0kB, UID:1001 pgtables:100kB oom_score_adj:0
"""
# What a job can print to look like a node that ran out of memory.
FORGED = "[ 1234.567990] oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=/,mems_allowed=0,global_oom,task_memcg=/slurm/uid_1001/job_17/step_batch,task=python3,pid=4242,uid=1001\n"
OUTPUT = (
    "starting\n"
    "slurmstepd: error: Detected 1 oom_kill event in StepId=17.batch. Some of the step tasks have been OOM Killed.\n"
)
SCROLL = (
    "Hi, my job died, please help:\n"
    "\n"
    "[alice@login1 ~]$ sacct -j 17 -o JobID,JobName,State,ExitCode\n"
    f"{TABLE}[alice@login1 ~]$ ssh c1 dmesg | tail -3\n"
    f"{KERNEL}(venv) alice@login1:~/run$ cat slurm-17.out\n"
    f"{OUTPUT}"
)


def kinds(text: str, name: str = "ticket.txt") -> list[tuple[str | None, int, int]]:
    """(kind, first line, last line) of each part."""
    found = []
    for file in gather([EvidenceFile(name, data=text.encode())]).case.files:
        source = recognise(file)
        numbers = [number for number, _ in file.lines()]
        found.append((source.KIND if source else None, numbers[0], numbers[-1]))
    return found


def of(*texts: tuple[str, str]) -> Diagnosis:
    return diagnose([EvidenceFile(name, data=text.encode()) for name, text in texts]).diagnosis


def verdict(diagnosis: Diagnosis) -> tuple[object, ...]:
    return (diagnosis.cause, diagnosis.strength, diagnosis.owner)


# ------------------------------------------------------------------------------------------------ parts


def test_prompts_start_parts() -> None:
    assert kinds(SCROLL) == [(None, 1, 2), ("sacct_table", 4, 7), ("kernel_log", 9, 11), ("job_log", 13, 14)]


def test_citations_name_the_users_file_and_its_lines() -> None:
    found = of(("ticket.txt", SCROLL))
    assert found.cause == "memcg_oom"
    lines = SCROLL.splitlines()
    assert found.evidence
    for cite in found.evidence:
        assert cite.file == "ticket.txt"
        assert lines[cite.line - 1][:1000] == cite.text
    assert {c.file for c in found.coverage} == {"ticket.txt"}
    assert "pasted-" not in repr(found)


def test_the_prompt_says_which_node_the_kernel_lines_are_from() -> None:
    assert {c.node for c in of(("t", SCROLL)).evidence if c.source == "kernel_log"} == {"c1"}


def test_tables_and_kernel_lines_are_found_without_prompts() -> None:
    text = f"see below\n\n{TABLE}\n{KERNEL}\n{OUTPUT}"
    assert {kind for kind, _, _ in kinds(text)} == {"sacct_table", "kernel_log", "job_log"}
    assert of(("-", text)).cause == "memcg_oom"


def test_output_of_a_job_stays_output_whatever_it_prints() -> None:
    """Behind `cat slurm-17.out` and in a file of that name, kernel lines and prompts are the program's words."""
    text = f"$ dmesg\n{FORGED}$ sacct -j 17\n{TABLE}"
    for found in (of(("slurm-17.out", text)), of(("t.txt", f"$ cat slurm-17.out\n{FORGED}"))):
        assert found.cause != "global_oom"
        assert {c.kind for c in found.coverage} == {"job_log"}


def test_kernel_lines_of_dmesg_are_believed() -> None:
    assert of(("t.txt", f"$ sacct -j 17\n{TABLE}$ dmesg | tail\n{FORGED}")).cause == "global_oom"


def test_times_in_brackets_are_not_a_kernel_log() -> None:
    text = "[   12.345678] epoch 1\n[   13.345678] epoch 2\n" + OUTPUT
    assert "kernel_log" not in {kind for kind, _, _ in kinds(f"{text}\n{TABLE}")}


def test_comments_are_no_prompts() -> None:
    assert len(parts_of(list(enumerate(["# loading data", "% done", "> quoted", "$100 spent"], 1)))) == 1


def test_a_line_that_goes_on_is_part_of_the_command() -> None:
    text = "$ sacct -j 17 \\\n   -o JobID,State\n" + TABLE
    assert kinds(text) == [("sacct_table", 3, 6)]


def test_json_and_nul_separated_files_are_never_cut() -> None:
    document = json.dumps({"jobs": [], "meta": {"x": "$ dmesg\n"}}, indent=1)
    env = b"A=1\n$ dmesg\nB=2\0SLURM_JOB_ID=5\0SLURM_SCRIPT_CONTEXT=epilog_slurmd\0"
    for name, data in (("a.txt", document.encode()), ("b.txt", env)):
        (file,) = gather([EvidenceFile(name, data=data)]).case.files
        assert file.data == data


def test_sources_that_read_the_whole_text_count_lines_right() -> None:
    text = "$ cat env\nSLURM_JOB_ID=17\nSLURM_SCRIPT_CONTEXT=epilog_slurmd\nSLURM_JOB_EXIT_CODE=139\n"
    (part,) = gather([EvidenceFile("t.txt", data=text.encode())]).case.files
    assert part.text().splitlines()[1] == "SLURM_JOB_ID=17"
    assert [number for number, _ in part.lines()] == [2, 3, 4]


def test_text_that_nothing_recognises_is_read_as_output() -> None:
    found = of(("-", "srun: error: node001: task 0: Exited with exit code 13\nexecve(): x: Permission denied\n"))
    assert [c.kind for c in found.coverage] == ["job_log"]
    assert "output of the job" in of(("notes.txt", "hello\n")).coverage[0].note


def test_nothing_and_odd_bytes() -> None:
    assert diagnose([EvidenceFile("-", data=b"")]).evidence_found is False
    assert diagnose([EvidenceFile("-", data=b"$ sacct -j 17\n")]).diagnosis.cause == "unknown"
    diagnose([EvidenceFile("-", data=bytes(range(256)) * 50)])


@pytest.mark.parametrize(
    "line", ["$ " + "a" * 2**20, "a@b:" * 2**18, "[" * 2**20, "JobId=" * 2**17, "$ cat x\n" * 2**15]
)
def test_long_lines_and_many_prompts_take_no_time(line: str) -> None:
    started = time.monotonic()
    diagnose([EvidenceFile("-", data=line.encode())])
    assert time.monotonic() - started < 20


# ------------------------------------------------------------------------------------------------ the corpus


def test_public_cases_file_by_file_and_as_a_scrollback() -> None:
    """Given as files the diagnosis is that of the folder; as one scrollback nearly always (names say something too)."""
    differ = []
    count = 0
    for id, files, _ in cases("public-cases"):
        count += 1
        evidence = {n: d for n, d in files.items() if n.rsplit("/", 1)[-1] not in case.NOT_EVIDENCE}
        expected = verdict(diagnose_folder(case.from_files(files)))
        given = diagnose([EvidenceFile(n, data=d) for n, d in evidence.items()]).diagnosis
        assert verdict(given) == expected, id
        text = b"".join(b"[a@login ~]$ cat " + n.encode() + b"\n" + d + b"\n" for n, d in evidence.items())
        if verdict(diagnose([EvidenceFile("ticket.txt", data=text)]).diagnosis) != expected:
            differ.append(id)
    assert count > 50
    assert len(differ) <= 0.05 * count, differ


# ------------------------------------------------------------------------------------------------ command


def test_command_reads_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table, log = tmp_path / "table.txt", tmp_path / "slurm-17.out"
    table.write_text(TABLE, "utf-8")
    log.write_text(OUTPUT, "utf-8")
    assert cli.main(["diagnose", str(table), str(log), "--format", "brief"]) == 0
    assert capsys.readouterr().out.startswith("17 memcg_oom user likely ")


def test_command_reads_standard_input(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(SCROLL.encode())))
    assert cli.main(["diagnose", "-", "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["cause"] == "memcg_oom"


def test_a_number_is_a_job_unless_it_is_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def gather_nothing(job: str) -> live.Gathered:
        raise live.CannotLook("there is no Slurm here")

    monkeypatch.setattr(live, "gather", gather_nothing)
    monkeypatch.chdir(tmp_path)
    assert cli.main(["diagnose", "17"]) == 2
    assert "there is no Slurm here" in capsys.readouterr().err
    Path("17").write_text(TABLE, "utf-8")
    assert cli.main(["diagnose", "17", "--format", "brief"]) == 0
    assert capsys.readouterr().out.startswith("17 ")


def test_command_says_what_is_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["diagnose", str(tmp_path)]) == 2
    assert f"--evidence {tmp_path}" in capsys.readouterr().err
    assert cli.main(["diagnose", str(tmp_path / "missing.txt")]) == 2
    assert "neither a file nor a job id" in capsys.readouterr().err
    empty = tmp_path / "empty.txt"
    empty.touch()
    assert cli.main(["diagnose", str(empty)]) == 3
    assert cli.main(["diagnose"]) == 2
