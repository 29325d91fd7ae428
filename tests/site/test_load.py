"""A site's folder: what is read, what is refused, and that nothing in it stops anything else."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from slurm_triage import case, extension, site
from slurm_triage.causes import all_causes
from slurm_triage.engine import diagnose
from slurm_triage.report.document import document
from slurm_triage.rules import all_rules
from slurm_triage.site.load import Knowledge, load, told
from slurm_triage.sources._catalog import load as catalog
from tests.site.folder import CAUSES, EVIDENCE, RULE, SIGNATURE, fill


@pytest.fixture(autouse=True)
def _nothing_in_force() -> Iterator[None]:
    yield
    extension.use(extension.Extension())


def said(knowledge: Knowledge) -> str:
    return "\n".join(told(knowledge.problems))


def test_everything_good_is_used(tmp_path: Path) -> None:
    found = load(fill(tmp_path))
    assert said(found) == ""
    assert [s.id for s in found.extension.signatures["program"]] == ["store_gone"]
    assert list(found.extension.causes) == ["object_store_gone"]
    assert [(rule.cause, rule.file) for rule in found.extension.rules] == [("object_store_gone", "rules/store.py")]
    assert extension.current() == extension.Extension(), "reading puts nothing in force"


def test_in_force_and_out_of_it_again(tmp_path: Path) -> None:
    folder = fill(tmp_path)
    site.use(str(folder))
    assert catalog("program").get("store_gone").meaning
    assert "object_store_gone" in all_causes() and all_rules()[-1].cause == "object_store_gone"
    assert diagnose(case.from_files(EVIDENCE)).cause == "object_store_gone"
    site.use(site.NONE)
    assert "object_store_gone" not in all_causes()
    assert all(not rule.file for rule in all_rules())
    with pytest.raises(KeyError):
        catalog("program").get("store_gone")
    assert diagnose(case.from_files(EVIDENCE)).cause != "object_store_gone"


def test_a_folder_is_named_by_option_or_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = fill(tmp_path)
    monkeypatch.setenv(site.VARIABLE, str(folder))
    found = site.use()
    assert found is not None and found.folder == folder
    monkeypatch.setenv(site.VARIABLE, "")
    assert site.folder_of(None) == site.DEFAULT
    assert site.folder_of("/else") == Path("/else")
    assert site.folder_of(site.NONE) is None
    missing = site.use(str(tmp_path / "no"))
    assert missing is not None and "no such folder" in said(missing)


BROKEN: dict[str, tuple[str, str, str]] = {
    "no TOML": ("signatures/bad_one.toml", "id =", "signatures/bad_one.toml:1"),
    "unknown key": (
        "signatures/bad_one.toml",
        SIGNATURE.replace("store_gone", "bad_one") + "colour = 1\n",
        "unknown keys",
    ),
    "id is not the name": ("signatures/bad_one.toml", SIGNATURE, "the name of the file"),
    "regex": (
        "signatures/bad_one.toml",
        SIGNATURE.replace("store_gone", "bad_one")
        .replace("STORE-E", "STORE-E(", 1)
        .replace("regex = '''", "regex = '''("),
        "not a regular expression",
    ),
    "hint of digits": (
        "signatures/bad_one.toml",
        SIGNATURE.replace("store_gone", "bad_one").replace('["STORE-E"]', '["12345"]'),
        "filters nothing",
    ),
    "id of the program": (
        "signatures/disk_quota.toml",
        SIGNATURE.replace("store_gone", "disk_quota"),
        "one of the program's own",
    ),
    "voice of another folder": (
        "signatures/slurmd/bad_one.toml",
        SIGNATURE.replace("store_gone", "bad_one"),
        "the voice of slurmd is slurm",
    ),
    "no Python": ("rules/bad.py", "def rule(:\n", "rules/bad.py:1: not Python"),
    "NUL": ("rules/bad.py", "x = 1\0", "not Python"),
    "raises when run": ("rules/bad.py", "x = 1\n1 / 0\n", "rules/bad.py:2: cannot be run: ZeroDivisionError"),
    "exits when run": ("rules/bad.py", "import sys\nsys.exit(0)\n", "rules/bad.py:2: cannot be run: SystemExit"),
    "missing module": ("rules/bad.py", "import no_such_module_here\n", "No module named"),
    "no rule": ("rules/bad.py", "x = 1\n", "holds no rule"),
    "only imported rules": ("rules/bad.py", "from slurm_triage.rules.nfs_error import nfs_error\n", "holds no rule"),
    "unknown cause": ("rules/bad.py", RULE.replace("object_store_gone", "nobody_knows"), "'nobody_knows' is no cause"),
    "never a site's": (
        "rules/bad.py",
        RULE.replace('rule("object_store_gone"', 'rule("no_failure"'),
        "cannot say no_failure",
    ),
    "unknown echo": ("rules/bad.py", RULE.replace("app_error", "app_eror"), "'app_eror' is no cause"),
    "another kind of file": ("rules/notes.txt", "hello", "is not used"),
    "cause of the program": (
        "causes.toml",
        CAUSES + "[nfs_error]\ntitle = 'a'\nmeaning = 'b'\n",
        "the program's own causes",
    ),
    "cause without meaning": ("causes.toml", CAUSES + "[abc]\ntitle = 'a'\n", "causes.toml:4: [abc] needs a meaning"),
    "cause that refines nothing": (
        "causes.toml",
        CAUSES + "[abc]\ntitle = 'a'\nmeaning = 'b'\nrefines = 'abd'\n",
        "which is no cause",
    ),
    "odd name": ("rules/Bad Name.py", RULE, "small letters"),
}


@pytest.mark.parametrize(("file", "text", "complaint"), BROKEN.values(), ids=BROKEN)
def test_what_is_broken_is_named_and_stops_nothing_else(tmp_path: Path, file: str, text: str, complaint: str) -> None:
    folder = fill(tmp_path, {file: text})
    found = site.use(str(folder))
    assert found is not None and complaint in said(found)
    assert [p.file for p in found.problems] == [file]
    paper = document(diagnose(case.from_files(EVIDENCE)))
    assert paper["cause"] == "object_store_gone", "the others are in force"
    notes = [entry for entry in paper["coverage"] if entry["file"].startswith(f"site knowledge: {file}")]
    assert len(notes) == 1 and notes[0]["kind"] is None and notes[0]["note"].startswith("not used: ")


def test_a_second_signature_of_an_id_is_refused(tmp_path: Path) -> None:
    found = load(fill(tmp_path, {"signatures/program/store_gone.toml": SIGNATURE}))
    assert "is that of signatures/program/store_gone.toml, too" in said(found)
    assert [s.id for s in found.extension.signatures["program"]] == ["store_gone"]


def test_rules_share_a_file_and_nothing_is_written(tmp_path: Path) -> None:
    shared = "from slurm_triage.rules import owner\n\nLINES = ('store_gone',)\n"
    rule = RULE.replace('"store_gone"', "*LINES").replace(
        "\n\n@rule", "from slurm_triage_site._lines import LINES\n\n\n@rule"
    )
    folder = fill(tmp_path, {"rules/_lines.py": shared, "rules/store.py": rule})
    before = sorted(folder.rglob("*"))
    found = site.use(str(folder))
    assert found is not None and said(found) == ""
    assert diagnose(case.from_files(EVIDENCE)).cause == "object_store_gone"
    assert sorted(folder.rglob("*")) == before
    load(fill(tmp_path / "other", {}))
    assert "slurm_triage_site._lines" not in sys.modules, "of a folder read before nothing stays"


def test_a_rule_that_raises_costs_its_own_word_only(tmp_path: Path) -> None:
    bad = RULE.replace("    yield owner", '    raise ValueError("no\\n" * 500)\n    yield owner').replace(
        'rule("object_store_gone"', 'rule("nfs_error"'
    )
    unknown = RULE.replace('"store_gone"', '"no_such_id"').replace('rule("object_store_gone"', 'rule("disk_quota"')
    site.use(str(fill(tmp_path, {"rules/bad.py": bad, "rules/unknown.py": unknown})))
    paper = document(diagnose(case.from_files(EVIDENCE)))
    assert paper["cause"] == "object_store_gone"
    notes = {entry["file"]: entry["note"] for entry in paper["coverage"] if entry["file"].startswith("site")}
    assert notes.keys() == {"site knowledge: rules/bad.py", "site knowledge: rules/unknown.py"}
    assert "nfs_error failed: ValueError" in notes["site knowledge: rules/bad.py"]
    assert "no signature has the id 'no_such_id'" in notes["site knowledge: rules/unknown.py"]
    assert all(len(note) <= 300 for note in notes.values())


def test_of_two_rules_of_one_cause_the_surer_one_speaks(tmp_path: Path) -> None:
    program = RULE.replace('"object_store_gone", supersedes=("app_error",)', '"app_error"')
    site.use(str(fill(tmp_path, {"rules/more.py": program, "rules/store.py": "", "signatures/x.txt": ""})))
    surely = diagnose(case.from_files(EVIDENCE))
    assert surely.cause == "app_error" and surely.site_rules == (("app_error", "rules/more.py"),)
    assert [v.cause for v in surely.considered].count("app_error") == 1


# ------------------------------------------------------------------------------------------------ who may write there


def _writable_by_all(path: Path) -> None:
    path.chmod(path.stat().st_mode | 0o002)


def _writable_by_group(path: Path) -> None:
    path.chmod(path.stat().st_mode | 0o020)


@pytest.mark.parametrize("change", [_writable_by_all, _writable_by_group])
@pytest.mark.parametrize(
    ("what", "lost"),
    [
        ("rules/store.py", {"rules"}),
        ("rules", {"rules"}),
        ("signatures/store_gone.toml", {"signatures"}),
        ("causes.toml", {"causes", "rules"}),
        (".", {"signatures", "causes", "rules"}),
        ("..", {"signatures", "causes", "rules"}),
    ],
)
def test_what_others_could_change_is_not_read(
    tmp_path: Path, change: Callable[[Path], None], what: str, lost: set[str]
) -> None:
    folder = fill(tmp_path / "way")
    change(folder / what)
    found = load(folder)
    assert "can be changed by others" in said(found)
    made = found.extension
    kept = {
        name
        for name, values in (("signatures", made.signatures), ("causes", made.causes), ("rules", made.rules))
        if values
    }
    assert kept == {"signatures", "causes", "rules"} - lost


def test_a_sticky_folder_on_the_way_is_no_danger(tmp_path: Path) -> None:
    folder = fill(tmp_path / "way")
    folder.parent.chmod(0o1777)
    assert said(load(folder)) == ""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
@pytest.mark.parametrize("what", ["rules/store.py", "rules", "."])
def test_files_of_somebody_else_are_not_read(tmp_path: Path, what: str) -> None:
    folder = fill(tmp_path)
    os.chown(folder / what, 54321, -1)
    found = load(folder)
    assert "belongs to uid 54321" in said(found)
    assert found.extension.rules == ()


@pytest.mark.parametrize("what", ["rules/store.py", "rules", "signatures/store_gone.toml", "."])
def test_links_are_not_followed(tmp_path: Path, what: str) -> None:
    folder = fill(tmp_path / "a")
    target = folder / what
    aside = tmp_path / "aside"
    (folder if what == "." else target).rename(aside)
    (folder if what == "." else target).symlink_to(aside)
    found = load(folder)
    assert "symbolic link" in said(found)
    assert not found.extension.rules or what.startswith("signatures")


def test_a_link_of_our_own_on_the_way_is_followed(tmp_path: Path) -> None:
    fill(tmp_path / "a")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    assert said(load(tmp_path / "b" / "knowledge.d")) == ""


def test_what_is_no_file_is_not_waited_for(tmp_path: Path) -> None:
    folder = fill(tmp_path)
    os.mkfifo(folder / "rules" / "pipe.py", 0o644)
    (folder / "rules" / "huge.py").write_bytes(b"#" * (256 * 1024 + 1))
    (folder / "rules" / "latin.py").write_bytes(b"# \xff\n")
    (folder / "rules" / "deep.py").mkdir()
    for path in (folder / "rules").iterdir():
        path.chmod(path.stat().st_mode & ~0o022)
    text = said(load(folder))
    for word in (
        "pipe.py is no plain file",
        "larger than 256 KiB",
        "rules/latin.py: rules/latin.py cannot be read",
        "deep.py",
    ):
        assert word in text
    assert len(load(folder).extension.rules) == 1


def test_a_folder_that_is_a_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("x")
    path.chmod(0o644)
    assert "no folder" in said(load(path))
