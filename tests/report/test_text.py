"""The page: 60 lines, 79 columns, ASCII, verdict first and last, nothing of the job evaluated."""

from __future__ import annotations

import subprocess
import textwrap
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from slurm_triage.model import Action, Cite, Coverage, Diagnosis, JobIdentity, Missing, Moment, Owner, Stamp, Strength
from slurm_triage.report import text
from slurm_triage.report.brief import brief
from slurm_triage.report.explain import explain
from slurm_triage.report.text import TEMPLATE, render
from tests.report.samples import GRACE, KILLED, NODE_OOM, OOM, OOM_JOB, PREEMPTED, SACCT, UNKNOWN, array, at, task
from tests.report.strategies import diagnoses

WHOLE = (Phase.explicit, Phase.reuse, Phase.generate)  # shrinking a whole diagnosis takes minutes


@pytest.fixture(autouse=True)
def no_site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No template of the machine's own site takes part."""
    monkeypatch.delenv("SLURM_TRIAGE_TEMPLATES", raising=False)
    monkeypatch.setattr(text, "SITE_TEMPLATES", tmp_path / "none")
    yield


def check(page: str) -> list[str]:
    """The lines of a page that keeps the form."""
    assert page.endswith("\n")
    lines = page[:-1].split("\n")
    assert len(lines) <= 60
    for line in lines:
        assert len(line) <= 79
        assert line == "" or (line.isascii() and line.isprintable())
    assert lines[0].startswith("VERDICT ")
    assert lines[1].startswith("TO DO   ")
    assert lines[-1] == lines[0]
    return lines


def section(lines: list[str], title: str) -> list[str]:
    """The lines below a title."""
    start = next(i for i, line in enumerate(lines) if line.startswith(title)) + 1
    return lines[start : lines.index("", start)]


def test_oom() -> None:
    lines = check(render(OOM))
    assert lines[0] == "VERDICT killed at a memory limit (confirmed), owner: user"
    assert "What happened (memcg_oom)" in lines
    assert lines[1] == "TO DO   Ask for more memory: try 120 MiB."
    page = "\n".join(lines)
    assert "Job 1088 on cluster mini, attempt 1 of 1, user user1" in page
    assert "Nodes c[1-2] (2), state FAILED, exit code 1, sacct shows 1:0" in page
    assert "First to fail: rank 1 on c1 at 15:10:58Z ~+00:07" in page
    timeline = section(lines, "Timeline, 2026-11-30, UTC")
    assert timeline[0] == "  15:10:51Z  +00:00  job started (sacct.psv:4)"
    assert timeline[2].startswith("  15:10:58Z ~+00:07  c1: the kernel killed python3")
    assert timeline[2].endswith("(kmsg.txt:87)")
    evidence = section(lines, "Evidence")
    assert evidence[0] == "  [1] kernel_log, node c1, 15:10:58Z, kmsg.txt:87"
    quoted = " ".join(line.removeprefix("      | ") for line in evidence[1:4])
    assert quoted == KILLED.text
    excluded = " ".join(line.strip() for line in section(lines, "What this is not"))
    assert "not the whole node ran out of memory: the kernel names the job's own cgroup (kmsg.txt:86)" in excluded
    missing = section(lines, "What we could not see")
    assert "    would settle: how much the job wanted" in missing
    assert "  - x.bin: not recognised" in missing
    assert section(lines, "Numbers")[-1].split() == ["peak", "n/a"]
    assert section(lines, "Command to paste") == ["  sbatch --mem=120M fold.sh"]


def test_preemption_with_grace() -> None:
    lines = check(render(PREEMPTED))
    assert lines[0] == "VERDICT preempted for another job (confirmed), owner: scheduler"
    page = "\n".join(lines)
    assert 'name "{{ 7*7 }}{% raw %}"' in page
    assert "49" not in page.replace("1119", "")
    assert "attempt 1 of 2" in page
    assert section(lines, "Timeline") == [
        "  15:10:56Z +00:00  job started",
        "  15:11:04Z +00:08  p4: grace window opens, steps get SIGTERM (job.out:1)",
        "  15:11:18Z +00:22  killed (slurmctld.log:3)",
        "  15:11:18Z +00:22  job ended",
    ]
    assert "What this is not" not in page


def test_unknown() -> None:
    lines = check(render(UNKNOWN))
    assert lines[0] == "VERDICT cause not known, owner: unknown"
    assert "confirmed" not in lines[0]
    assert lines[1] == "TO DO   Find out first: dmesg -T on c1"
    page = "\n".join(lines)
    assert "Submitted n/a, started n/a, ended n/a" in page
    assert "state n/a, exit n/a" in page
    assert "kmsg.txt: could not be read: Permission denied" in page
    assert section(lines, "Command to paste") == ["  sacct -D -j 77 -o JobID,State,ExitCode,Start,End,NodeList"]


def test_nothing_proposed() -> None:
    assert check(render(replace(UNKNOWN, missing=())))[1] == "TO DO   Nothing is proposed."


def test_parts_are_grouped_by_cause_and_folded() -> None:
    fine = Diagnosis(JobIdentity(), "no_failure", Owner.NOBODY, Strength.CONFIRMED, "Ended well.")
    parts = [*(task(fine, i) for i in range(8, 20)), *(task(OOM, i) for i in (1, 2, 3, 7)), task(PREEMPTED, 4)]
    lines = check(render(array(*parts)))
    rows = section(lines, "Parts")
    assert rows[0] == "  4 tasks [1-3,7]: memcg_oom (confirmed), owner: user"
    assert rows[2] == "  task 4: preempted (confirmed), owner: scheduler"
    assert rows[4] == "  12 tasks [8-19]: no_failure (confirmed), owner: nobody"
    assert "started" not in "\n".join(lines)
    het = [replace(OOM, job=replace(OOM.job, het="1111", het_offset=str(i))) for i in (0, 1)]
    assert "  2 components [0-1]: memcg_oom" in render(array(*het))


def crowded() -> Diagnosis:
    long = "the quick brown fox jumps over the lazy dog and " * 6
    return replace(
        OOM,
        summary=long,
        actions=tuple(Action(f"{n} {long}", "true") for n in range(6)),
        evidence=tuple(replace(KILLED, line=n) for n in range(1, 30)),
        timeline=tuple(Moment(at(n), f"moment {n}", SACCT) for n in range(30)),
        ruled_out=tuple(replace(NODE_OOM, cause=f"cause{n}") for n in range(9)),
        missing=tuple(Missing(f"{n} {long}", long, long) for n in range(9)),
        numbers=tuple((f"number {n}", "1 GiB") for n in range(30)),
        coverage=tuple(Coverage(f"{n}.bin", None, note="not recognised") for n in range(9)),
    )


def test_a_full_page_says_what_it_leaves_out() -> None:
    lines = check(render(crowded()))
    assert len(lines) > 50
    for title in ("What happened", "What to do", "Timeline", "Evidence"):
        assert section(lines, title)
    evidence = section(lines, "Evidence")
    shown = sum(line.startswith("  [") for line in evidence)
    assert shown >= 2
    assert evidence[-1] == f"  ({29 - shown} more in --format json)"
    timeline = section(lines, "Timeline")
    assert 3 <= len(timeline) <= 8
    assert "moment 0" in timeline[0]
    for title in ("What this is not", "What we could not see", "Numbers"):
        start = next(i for i, line in enumerate(lines) if line.startswith(title))
        assert "in --format json)" in "\n".join(lines[start : lines.index("", start)])


def test_timeline_keeps_both_ends_and_the_order() -> None:
    moments = tuple(Moment(at(n), f"moment {n}", SACCT) for n in (5, 3, 1, 0, 2, 4, 6, 7, 8, 9))
    short = replace(OOM, timeline=moments, missing=(), coverage=(), evidence=OOM.evidence[2:])
    rows = section(check(render(short)), "Timeline")
    assert [row.split("moment ")[1][0] if "moment" in row else row for row in rows] == [
        "0", "1", "  (3 more in --format json)", "5", "6", "7", "8", "9",
    ]  # fmt: skip


def test_times_without_a_zone() -> None:
    local = [replace(moment, at=Stamp(at(n).lo, at(n).hi, zoned=False)) for n, moment in enumerate(OOM.timeline)]
    lines = check(render(replace(OOM, timeline=tuple(local))))
    rows = section(lines, "Timeline")
    assert "zone of times not known" in "\n".join(lines)
    assert all("+" not in row.split("job")[0] and "Z" not in row for row in rows)


def test_secrets_and_control_characters() -> None:
    cites = (
        Cite("job_log", "job.out", 1, "\x1b[31mexport TOKEN=s3cr3tvalue\x1b[0m\u202e evil"),
        Cite(
            "kernel_log",
            "kmsg.txt",
            5,
            "[ 1.0] [   77]  1002    77   178323    12345   204800        0             0 sim",
        ),
    )
    page = render(replace(OOM, evidence=cites, summary="password=hunter2", job=replace(OOM_JOB, name="token:abcdef")))
    check(page)
    for gone in ("s3cr3tvalue", "hunter2", "abcdef", " sim"):
        assert gone not in page
    assert r"| \x1b[31mexport TOKEN=***" in page
    assert r"\u202e evil" in page or "..." in page
    assert "(other user's process)" in " ".join(page.replace("|", " ").split())


@pytest.mark.parametrize(
    ("command", "lines"),
    [
        ("sbatch a.sh", ["  sbatch a.sh"]),
        ("sbatch " + "--export=ALL,AAAAAAAAAAAAAAAAAAAAAAAAAAA " * 3 + "x.sh", None),
        ("echo '" + "word " * 30 + "'", []),
        ("echo a\nrm -rf b", []),
        ("echo \u202e", []),
        ("curl -u bob:hunter2 https://x", []),
    ],
)
def test_command_is_whole_or_not_there(command: str, lines: list[str] | None) -> None:
    shown = section(check(render(replace(OOM, actions=(Action("Do it.", command),)))), "Command to paste")
    if lines == []:
        assert shown == ["  (not shown: it does not fit on this page; see --format json)"]
    elif lines is not None:
        assert shown == lines
    else:
        run = subprocess.run(  # what the shell reads is the same command
            ["sh", "-c", "sbatch() { printf '%s|' \"$@\"; }\n" + "\n".join(shown)],
            capture_output=True,
            text=True,
            check=True,
        )
        assert len(shown) > 1
        assert run.stdout == "--export=ALL,AAAAAAAAAAAAAAAAAAAAAAAAAAA|" * 3 + "x.sh|"


@settings(max_examples=60, deadline=None, phases=WHOLE, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(diagnoses())
def test_any_diagnosis_keeps_the_form(diagnosis: Diagnosis) -> None:
    lines = check(render(diagnosis))
    assert not any(line.startswith("====") for line in lines)
    one = brief(diagnosis)
    assert one.isascii() and one.isprintable()
    assert len(one.split(" ")) >= 4
    for line in explain(diagnosis)[:-1].split("\n"):
        assert line == "" or (line.isascii() and line.isprintable())


@settings(max_examples=30, deadline=None, phases=WHOLE, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(diagnoses(0))
def test_nothing_is_evaluated(diagnosis: Diagnosis) -> None:
    bait = "{{ 'zq' * 5 }}"  # what comes of it stands in no number
    page = render(replace(diagnosis, summary=bait, cause=bait, job=replace(diagnosis.job, name=bait)))
    assert page.startswith(f"VERDICT {bait}")
    assert "zqzqzqzqzq" not in page


# ------------------------------------------------------------------------------------------------ templates


def site(folder: Path, content: str) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / TEMPLATE).write_text(content, encoding="utf-8")
    return folder


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(diagnoses())
def test_the_page_is_that_of_the_template_of_the_package(monkeypatch: pytest.MonkeyPatch, diagnosis: Diagnosis) -> None:
    """People copy the template and change it: it must make what is made without it."""
    wanted = render(diagnosis)
    with monkeypatch.context() as patched:
        patched.setenv("SLURM_TRIAGE_TEMPLATES", str(Path(text.__file__).parents[2] / "templates"))
        assert render(diagnosis) == wanted
        assert "not used" not in wanted


def test_template_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text, "SITE_TEMPLATES", site(tmp_path / "etc", "site {{ verdict }}"))
    assert render(OOM).startswith("site VERDICT")
    monkeypatch.setenv("SLURM_TRIAGE_TEMPLATES", str(site(tmp_path / "own", "own {{ diagnosis.job.name }}")))
    assert render(OOM) == "own fold\n"
    monkeypatch.setenv("SLURM_TRIAGE_TEMPLATES", str(tmp_path / "not there"))
    assert render(OOM).startswith("site VERDICT")


@pytest.mark.parametrize(
    "content",
    [
        "{{ verdict",
        "{{ no_such_name }}",
        "{{ verdict.no_such_member }}",
        "{% include 'other.j2' %}",
        "{% include '../../../etc/passwd' %}",
        "{{ ''.__class__.__mro__[1].__subclasses__() }}",
        "{{ 1 / 0 }}",
        "",
    ],
)
def test_broken_template_of_the_site_loses_nothing(
    content: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text, "SITE_TEMPLATES", site(tmp_path / "etc", content))
    for diagnosis in (OOM, crowded()):
        lines = check(render(diagnosis))
        assert lines[-2].startswith("(template of this site not used: ")
        assert sum("template of this site" in line for line in lines) == 1


def test_page_of_a_site_template_keeps_the_form(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = "{% for n in range(200) %}\nline {{ n }} é {{ 'x' * 100 }}\n{% endfor %}\nlast"
    monkeypatch.setattr(text, "SITE_TEMPLATES", site(tmp_path / "etc", content))
    lines = render(OOM)[:-1].split("\n")
    assert len(lines) == 60
    assert all(len(line) <= 79 and line.isascii() for line in lines)
    assert lines[-1] == "last"
    assert lines[-3] == "(142 lines more in --format json)"


# ------------------------------------------------------------------------------------------------ the small ones


def test_brief() -> None:
    assert brief(PREEMPTED) == f"1119 preempted scheduler confirmed {PREEMPTED.summary}"
    assert brief(UNKNOWN).startswith("77 unknown unknown unknown Signal 9")
    odd = replace(UNKNOWN, job=JobIdentity(), summary="a\nb")
    assert brief(odd) == r"- unknown unknown unknown a\x0ab"


def test_explain() -> None:
    page = explain(OOM)
    lines = page.split("\n")
    assert [line for line in lines if line.startswith(("memcg_oom", "global_oom", "preempted"))] == [
        "memcg_oom: confirmed, owner: user",
        "global_oom: ruled out",
        "preempted: silent",
    ]
    assert "  confirm true     the kernel names the job's own limit" in lines
    assert "  refute  false    the whole node was out of memory" in lines
    assert "      because: the constraint is CONSTRAINT_MEMCG" in lines
    assert "  support unknown  MaxRSS is close to the limit" in lines
    assert "      to find out: sacct -j 1088 -o MaxRSS" in lines
    assert f"        kmsg.txt:87 (kernel_log, node c1, 2026-11-30T15:10:57Z): {KILLED.text}" in lines
    assert "No rule was considered." in explain(UNKNOWN)
    assert GRACE.text not in explain(PREEMPTED)


@given(
    st.lists(st.text("abx-.,:/=\t\n é\u3000", max_size=90), max_size=40)
    | st.lists(st.text("abc-.", min_size=1, max_size=25), max_size=60),
    st.sampled_from(["", " ", "  "]),
    st.integers(1, 5),
    st.sampled_from([("", "  "), ("  ", "    "), ("  ", "  "), ("    ", "      ")]),
)
@settings(max_examples=300, deadline=None)
def test_wrapping_is_what_textwrap_does(words: list[str], glue: str, most: int, indents: tuple[str, str]) -> None:
    line = (glue or " ").join(words) + glue
    kept = line[: (most + 1) * text.COLUMNS]
    known = textwrap.wrap(
        kept,
        text.COLUMNS,
        initial_indent=indents[0],
        subsequent_indent=indents[1],
        break_on_hyphens=False,
        max_lines=most,
        placeholder="...",
    )
    assert text.wrap(line, most, *indents) == (known or [indents[0].rstrip()])
    plain = " ".join(" ".join(words).split())
    quick = text._wrapped(plain[: 6 * text.COLUMNS].strip(), most, *indents)
    assert quick is None or max(map(len, quick)) <= text.COLUMNS
