"""The command as a whole: one bad folder among several, exit codes, formats."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from slurm_triage import cli
from tests.corpus.load import cases

OK, UNREADABLE, NO_EVIDENCE = 0, 2, 3


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two real cases as folders."""
    made = []
    for name, files, _ in cases("recorded-24.11"):
        if name.endswith(("exit1", "segv_srun")):
            folder = tmp_path_factory.mktemp("case")
            for file, data in files.items():
                path = folder / file.replace("../", "")
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(data)
            made.append(folder)
    assert len(made) >= 2
    return made[:2]


def test_several_folders_as_json_lines(folders: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["diagnose", "--format", "json", "--evidence", *map(str, folders)]) == OK
    lines = capsys.readouterr().out.splitlines()
    assert [json.loads(line)["schema"] for line in lines] == ["slurm-triage/diagnosis/1"] * 2


def test_a_fault_in_one_folder_does_not_cost_the_others(
    folders: list[Path], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    real = cli._of_folder

    def broken(folder: Path) -> object:
        if folder == folders[0]:
            raise RuntimeError("boom \x1b[31m")
        return real(folder)

    monkeypatch.setattr(cli, "_of_folder", broken)
    assert cli.main(["diagnose", "--format", "brief", "--evidence", *map(str, folders)]) == UNREADABLE
    said = capsys.readouterr()
    assert len(said.out.splitlines()) == 1
    assert "a fault in slurm-triage (RuntimeError: boom" in said.err and "\x1b" not in said.err
    with pytest.raises(RuntimeError):  # alone it is shown as it is
        cli.main(["diagnose", "--evidence", str(folders[0])])


def test_a_missing_folder_and_an_empty_one(
    folders: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["diagnose", "--evidence", str(tmp_path / "none")]) == UNREADABLE
    assert "cannot be read" in capsys.readouterr().err
    assert cli.main(["diagnose", "--evidence", str(tmp_path)]) == NO_EVIDENCE
    assert "no file in it was recognised" in capsys.readouterr().err
    assert cli.main(["diagnose", "--evidence", str(tmp_path), str(folders[0])]) == OK


def test_record_and_deliver(folders: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from slurm_triage.history import cli as history

    database, out = tmp_path / "history.sqlite", tmp_path / "out"
    out.mkdir()
    again = ["diagnose", "--format", "brief", "--record", "--db", str(database), "--output-dir", str(out), "--evidence"]
    for _ in range(2):  # the same attempt diagnosed again replaces its own section and row
        assert cli.main([*again, *map(str, folders)]) == OK
    capsys.readouterr()
    assert history.main(["list", "--json", "--db", str(database)]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert len(rows) == 2
    written = sorted(out.glob("*.diagnosis.txt"))
    assert len(written) == 2
    for path in written:
        text = path.read_text("ascii")
        assert text.count("==== slurm-triage 1:") == 1
        assert text.splitlines()[1].startswith("VERDICT ") and text.splitlines()[-1].startswith("VERDICT ")
