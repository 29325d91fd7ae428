"""check-rules: what it finds, where, and with which exit code."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from slurm_triage import cli, extension
from slurm_triage.site.check import check
from slurm_triage.site.slow import slow_line
from tests.site.folder import CAUSES, LABEL, RULE, SIGNATURE, fill

BAD: dict[str, tuple[str, str, int | None, str]] = {
    "example without a hint": (
        "signatures/store_gone.toml",
        SIGNATURE.replace('hints = ["STORE-E"]', 'hints = ["STORE-F"]'),
        9,
        "no hint is in the example",
    ),
    "regex does not match": (
        "signatures/store_gone.toml",
        SIGNATURE.replace("refused by (?P", "refused from (?P"),
        9,
        "does not match the example",
    ),
    "counter matches": (
        "signatures/store_gone.toml",
        SIGNATURE.replace('counter = ["STORE-E 12: refused"]', 'counter = ["STORE-E 13: refused by s2.example.org"]'),
        10,
        "matches the counter-example",
    ),
    "endless regex": (
        "signatures/store_gone.toml",
        SIGNATURE.replace("(?P<server>[a-z0-9.]{1,80})$", "(?P<server>([a-z0-9]+[.]?)+)$"),
        8,
        "the regex takes too long",
    ),
    "slow regex": (
        "signatures/store_gone.toml",
        SIGNATURE.replace("^STORE-E (?P<code>[0-9]{1,4}): refused by", ".*STORE-E.*refused.*by").replace("{1,80}", "+"),
        8,
        "the regex takes too long",
    ),
    "a family of the program": (
        "signatures/store_gone.toml",
        SIGNATURE.replace("refused by s1.example.org", "refused by s1.example.org")
        .replace(
            'examples = ["STORE-E 12: refused by s1.example.org"]',
            'examples = ["STORE-E 12: refused by s1.example.org", "STORE-E: OSError: [Errno 122] Disk quota exceeded"]',
        )
        .replace("^STORE-E (?P<code>[0-9]{1,4}): refused by (?P<server>[a-z0-9.]{1,80})$", "^STORE-E")
        .replace('counter = ["STORE-E 12: refused"]\n', ""),
        9,
        "name it under also",
    ),
    "also": (
        "signatures/store_gone.toml",
        SIGNATURE.replace("[[form]]", 'also = ["nobody"]\n[[form]]', 1),
        7,
        "also: nobody is no signature",
    ),
    "since": ("signatures/store_gone.toml", SIGNATURE.replace('"2026-12"', '"lately"'), 4, "a year and a month"),
    "no docstring": (
        "rules/store.py",
        RULE.replace(RULE[RULE.index('    """') : RULE.index("    yield require")], ""),
        6,
        "no docstring",
    ),
    "section": ("rules/store.py", RULE.replace("    Who acts: the administrator.\n", ""), 6, "lacks 'Who acts:'"),
    "no first sentence": ("rules/store.py", RULE.replace('"""The store refused.\n', '"""'), 6, "a first sentence"),
    "no condition": (
        "rules/store.py",
        re.sub(r"    yield (?:require|confirm).*\n", "", RULE),
        6,
        "yields no condition",
    ),
    "speaks always": (
        "rules/store.py",
        RULE.replace('job.site.seen("store_gone")', "Fact('x', True)").replace("import Owner", "import Fact, Owner"),
        6,
        "where there is no evidence at all",
    ),
    "raises": (
        "rules/store.py",
        RULE.replace("    yield require", "    x = [][0]\n    yield require"),
        18,
        "IndexError",
    ),
    "condition after the owner": (
        "rules/store.py",
        RULE.replace("Owner.ADMIN)\n", "Owner.ADMIN)\n    yield confirm(job.site.seen('store_gone'))\n")
        .replace('yield require(job.site.seen("store_gone"))', 'yield require(Fact("x", True))')
        .replace("import Owner", "import Fact, Owner"),
        6,
        "a condition after its owner",
    ),
    "no case.toml": ("cases/empty/job.out", "x\n", None, "there is no case.toml"),
    "no evidence": ("cases/empty/case.toml", LABEL, None, "no file in it was recognised"),
    "another cause": (
        "cases/refused/case.toml",
        LABEL.replace("object_store_gone", "nfs_error"),
        1,
        "expected nfs_error, but the diagnosis is object_store_gone (confirmed)",
    ),
    "another strength": ("cases/refused/case.toml", LABEL.replace("confirmed", "likely"), 3, "expected likely"),
    "another owner": ("cases/refused/case.toml", LABEL.replace('"admin"', '"user"'), 2, "expected user"),
    "another line": ("cases/refused/case.toml", LABEL.replace("STORE-E 12", "STORE-E 13"), 4, "no cited line holds"),
    "never": ("cases/refused/case.toml", LABEL + 'never = ["object_store_gone"]\n', 5, "the diagnosis names"),
    "unknown cause": ("cases/refused/case.toml", LABEL.replace("object_store", "objects"), 1, "is not known"),
    "label no TOML": ("cases/refused/case.toml", "cause_class = \n", 1, "not TOML"),
}


@pytest.mark.parametrize(("file", "text", "line", "complaint"), BAD.values(), ids=BAD)
def test_what_is_wrong_is_said_with_its_line(
    tmp_path: Path, file: str, text: str, line: int | None, complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = fill(tmp_path, {file: text})
    assert cli.main(["check-rules", str(folder), "--json"]) == 1
    errors = json.loads(capsys.readouterr().out)["errors"]
    label = file if "/case" not in file and not file.startswith("cases") else f"{file.rsplit('/', 1)[0]}/case.toml"
    fitting = [error for error in errors if complaint in error["what"]]
    assert fitting, errors
    assert (fitting[0]["file"], fitting[0]["line"]) == (label, line)
    assert extension.current() == extension.Extension()


def test_all_is_well(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = fill(tmp_path)
    assert cli.main(["check-rules", str(folder)]) == 0
    assert capsys.readouterr().out == "all is well: 1 signatures, 1 causes, 1 rules, 1 cases\n"
    assert cli.main(["check-rules", str(folder), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["schema"] == "slurm-triage/check-rules/1"
    assert said["rules"] == [{"cause": "object_store_gone", "file": "rules/store.py"}]
    assert (said["signatures"], said["causes"], said["cases"]) == (["store_gone"], ["object_store_gone"], 1)


def test_hints_do_not_fail(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = fill(tmp_path, {"causes.toml": CAUSES + '[idle]\ntitle = "a"\nmeaning = "b"\n'})
    (folder / "cases/refused/case.toml").unlink()
    (folder / "cases/refused/job.out").unlink()
    (folder / "cases/refused").rmdir()
    assert cli.main(["check-rules", str(folder)]) == 0
    said = capsys.readouterr().out
    assert "rules/store.py:6: (hint) no case of cases/ is diagnosed as object_store_gone" in said
    assert "causes.toml:4: (hint) no rule says idle" in said


def test_a_folder_that_cannot_be_used(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["check-rules", str(tmp_path / "no")]) == 2
    assert "no such folder" in capsys.readouterr().err
    folder = fill(tmp_path)
    folder.chmod(0o777)
    assert cli.main(["check-rules", str(folder)]) == 2
    assert "can be changed by others" in capsys.readouterr().err
    assert cli.main(["diagnose", "--knowledge", str(folder), "--evidence", str(folder / "cases/refused")]) == 2
    assert "can be changed by others" in capsys.readouterr().err


def test_what_never_ends_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("slurm_triage.site.check.SECONDS", 0.5)
    monkeypatch.setattr("slurm_triage.site.load.SECONDS", 0.5)
    endless = fill(tmp_path / "a", {"rules/endless.py": "x = 1\nwhile True:\n    x += 1\n"})
    (problem,) = check(endless).errors
    assert problem.file == "rules/endless.py" and problem.line in (2, 3) and "was stopped" in problem.what
    waits = RULE.replace("    yield require", "    while True:\n        pass\n    yield require")
    errors = {e.file: e.what for e in check(fill(tmp_path / "b", {"rules/store.py": waits})).errors}
    assert "does not come to its end" in errors["rules/store.py"]
    assert "judging the case takes more than" in errors["cases/refused/case.toml"]
    sleeps = check(fill(tmp_path / "c", {"rules/sleeps.py": "import time\n\ntime.sleep(60)\n"})).errors
    assert [(e.file, e.line) for e in sleeps] == [("rules/sleeps.py", 3)]


def test_what_a_rule_prints_is_not_in_the_answer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = fill(tmp_path, {"rules/store.py": RULE.replace("@rule", 'print("hello")\n\n\n@rule')})
    assert cli.main(["check-rules", str(folder), "--json"]) == 0
    shown = capsys.readouterr()
    assert json.loads(shown.out)["errors"] == [] and "hello" in shown.err


@pytest.mark.parametrize(
    ("regex", "example"),
    [
        (r"^LIC: (\w+\s?)+:", "LIC: bad day today: x"),
        (r"E1 (a+)+$", "E1 aaa"),
        (r"^x(.*),(.*),(.*);", "xa,b,c;"),
        (r"\s+failed", "job failed"),
        (r"^(([a-z])+.)+[A-Z]([a-z])+$", "abc.Def"),
        (r"LIC (.*?) (.*?) (.*?) end$", "LIC a b c end"),
    ],
)
def test_slow_expressions_are_found(regex: str, example: str) -> None:
    assert slow_line(re.compile(regex), [example], [example[:3]]) is not None


@pytest.mark.parametrize(
    ("regex", "example"),
    [
        (r"^LIC-E: no seat of (?P<f>[\w-]{1,60}) at (?P<s>[\w.-]{1,200})$", "LIC-E: no seat of a-b at x.y.z"),
        (r"^mount\.nfs: (?P<why>.{1,300})", "mount.nfs: Connection timed out"),
        (r"(?:fatal|panic): (?P<code>\d{1,5})\b", "x fatal: 12"),
    ],
)
def test_fast_expressions_are_left_alone(regex: str, example: str) -> None:
    assert slow_line(re.compile(regex), [example], [example[:3]]) is None
