"""The service and what the site adds: said at the start, in force in every process that judges, shown by the status."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from slurm_triage import cli, extension, site
from slurm_triage.log import Log
from slurm_triage.service import ledger as books
from slurm_triage.service.config import ConfigError, load
from slurm_triage.service.knowledge import known
from slurm_triage.service.pool import Case, Judged, Pool
from tests.site.folder import EVIDENCE, fill


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    made = fill(tmp_path / "site", {"rules/bad.py": "def ("})
    monkeypatch.setenv(site.VARIABLE, str(made))
    yield made
    extension.use(extension.Extension())


def test_what_is_read_and_what_is_not_is_said(folder: Path) -> None:
    lines: list[str] = []
    said = known(Log(lines.append))
    assert (said["signatures"], said["causes"], said["rules"]) == (1, 1, 1)
    assert len(said["problems"]) == 1 and said["problems"][0].startswith("rules/bad.py:1: not Python")
    assert [line.split()[:2] for line in lines] == [["info", "knowledge"], ["error", "knowledge"]]
    assert "rules/bad.py:1" in lines[1]


def test_without_a_folder_nothing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(site.VARIABLE, site.NONE)
    lines: list[str] = []
    assert known(Log(lines.append)) == {} and lines == []


@pytest.mark.parametrize("workers", [0, 2])
def test_whoever_judges_knows_it(folder: Path, workers: int) -> None:
    known(Log(lambda _: None))
    with Pool(workers) as pool:
        ((_, found),) = pool.judge([Case("7", EVIDENCE, {})], {}, None)
    assert isinstance(found, Judged) and found.cause == "object_store_gone"


def test_settings_may_name_a_cause_of_the_site(folder: Path, tmp_path: Path) -> None:
    file = tmp_path / "service.toml"
    file.write_text('[service]\nno_file_causes = ["object_store_gone"]\n', "utf-8")
    with pytest.raises(ConfigError):
        load(file)
    known(Log(lambda _: None))
    assert load(file).no_file_causes == ("object_store_gone",)


def test_the_status_shows_what_the_service_read(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    book = books.Ledger(knowledge=known(Log(lambda _: None)))
    books.save(tmp_path / books.FILE, book.text())
    assert books.load(tmp_path / books.FILE).knowledge == book.knowledge
    config = tmp_path / "service.toml"
    config.write_text(f'[service]\nstate = "{tmp_path}"\n', "utf-8")
    assert cli.main(["service", "status", "--config", str(config)]) == 1, "it has never swept"
    shown = capsys.readouterr().out
    assert f"knowledge of this site: 1 signatures, 1 causes, 1 rules from {folder}" in shown
    assert "    not used: rules/bad.py:1: not Python" in shown
    cli.main(["service", "status", "--json", "--config", str(config)])
    assert json.loads(capsys.readouterr().out)["knowledge"]["folder"] == os.fspath(folder)
