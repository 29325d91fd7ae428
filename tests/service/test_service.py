"""Settings, ledger, log, metrics, the loop and the command."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from slurm_triage import cli
from slurm_triage.log import Log, line
from slurm_triage.service import ledger as books
from slurm_triage.service.ask import ENDED_FIELDS
from slurm_triage.service.config import ConfigError, Settings, load
from slurm_triage.service.ledger import Ledger, LedgerError, Said, Waiting
from slurm_triage.service.loop import LONGEST, Service
from slurm_triage.service.metrics import metrics
from slurm_triage.service.notify import notify
from tests.live.fake import Cluster
from tests.service.jobs import joined, recorded
from tests.service.test_ask import sacct

JOBS = recorded()


def settings_file(folder: Path, *lines: str) -> Path:
    path = folder / "service.toml"
    state = [f'history = "{folder}/h.sqlite"', f'state = "{folder}"']
    path.write_text("\n".join(["[service]", *state, *lines]) + "\n")
    return path


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[service]\nintervall = 60", "did you mean interval?"),
        ("[service]\nzzz = 1", "known are "),
        ("[service]\ninterval = 1", "from 10 to 3600"),
        ("[service]\ninterval = true", "from 10 to 3600"),
        ('[service]\ninterval = "60"', "from 10 to 3600"),
        ('[service]\nhistory = "h.sqlite"', "absolute path"),
        ("[service]\nown_scancel = 1", "true or false"),
        ("[servce]\n", "[servce] is not known"),
        ("service = 3", "has to be a table"),
        ("[service", "not TOML"),
    ],
)
def test_a_wrong_setting_is_a_sentence(tmp_path: Path, text: str, why: str) -> None:
    path = tmp_path / "s.toml"
    path.write_text(text)
    with pytest.raises(ConfigError) as told:
        load(path)
    assert why in str(told.value) and str(path) in str(told.value)


def test_settings(tmp_path: Path) -> None:
    assert load(settings_file(tmp_path, "interval = 60")) == Settings(
        interval=60.0, history=tmp_path / "h.sqlite", state=tmp_path
    )
    with pytest.raises(ConfigError, match="no such file"):
        load(tmp_path / "nothing")


def test_a_ledger_comes_back_as_it_went(tmp_path: Path) -> None:
    ledger = Ledger(
        swept=12.5,
        begun=1.0,
        waiting={"7": Waiting("9_1", 1.0)},
        said={"8": Said("d", "memcg_oom", None, 3.0, 2)},
        bad={"9": "why"},
        counts=Counter(sweeps=3),
    )
    books.save(tmp_path / "l", ledger.text())
    assert books.load(tmp_path / "l") == ledger
    assert books.load(tmp_path / "none") == Ledger()


def test_two_at_once_do_not_meet(tmp_path: Path) -> None:
    with books.locked(tmp_path):
        with pytest.raises(LedgerError, match="another service"), books.locked(tmp_path):
            pass
        lines: list[str] = []
        assert not Service(Settings(state=tmp_path, history=tmp_path / "h"), Log(lines.append)).once()
        assert "another service is at work" in lines[0]
    with books.locked(tmp_path):
        pass


def test_a_clock_that_was_ahead_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    books.save(tmp_path / "ledger.json", Ledger(swept=time.time() + 86400).text())
    assert cli.main(["service", "status", "--config", str(settings_file(tmp_path))]) == 1
    assert capsys.readouterr().out.startswith("wrong: the last sweep lies in the future")


WRONG_TYPE = Ledger().text().replace('"swept": null', '"swept": "x"')


@pytest.mark.parametrize(
    "text", [WRONG_TYPE, "", "[]", "{}", '{"schema": "slurm-triage/ledger/1"}', '{"schema": "x"}', "\xff"]
)
def test_a_damaged_ledger_says_what_to_do(tmp_path: Path, text: str) -> None:
    (tmp_path / "l").write_text(text, "latin-1")
    with pytest.raises(LedgerError, match="Move it away"):
        books.load(tmp_path / "l")


def test_log_lines_are_one_line_whatever_is_in_them() -> None:
    assert line("info", "swept", {"ended": 3, "seconds": 0.1234567, "none": None}) == "info swept ended=3 seconds=0.123"
    assert "\n" not in line("error", "bad", {"why": "a\nerror forged x=1"})
    assert line("info", "x", {"y": 'a "b"'}) == 'info x y="a \\"b\\""'


def test_metrics_are_in_the_form_of_prometheus() -> None:
    ledger = Ledger(swept=100.0, waiting={"7": Waiting("7", 1.0)}, counts=Counter({"cause:memcg_oom": 4, "sweeps": 9}))
    lines = metrics(ledger, {"sacct": 12}, 130.0).splitlines()
    assert 'slurm_triage_cases_total{cause="memcg_oom"} 4' in lines
    assert {"slurm_triage_lag_seconds 30", "slurm_triage_waiting 1", "slurm_triage_sweeps_total 9"} <= set(lines)
    assert 'slurm_triage_calls_total{command="sacct"} 12' in lines
    names = [text.split()[2] for text in lines if text.startswith("# TYPE ")]
    assert len(names) == len(set(names)) and lines[-1]


def test_systemd_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = str(tmp_path / "n")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(place)
        monkeypatch.setenv("NOTIFY_SOCKET", place)
        notify("READY=1")
        assert systemd.recv(100) == b"READY=1"
    for nowhere in (place, "/nowhere", "", "relative"):
        monkeypatch.setenv("NOTIFY_SOCKET", nowhere)
        notify("READY=1")


def test_a_round_that_fails_is_counted_and_tried_ever_less_often(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Cluster(tmp_path / "slurm").use(monkeypatch)
    lines: list[str] = []
    service = Service(load(settings_file(tmp_path)), Log(lines.append))
    pauses = []
    for _ in range(6):
        assert not service.once()
        pauses.append(service.pause())
    assert pauses == [240.0, 480.0, LONGEST, LONGEST, LONGEST, LONGEST]
    assert lines[0].startswith("error sweep-failed why=") and "not available here" in lines[0]
    assert books.load(tmp_path / "ledger.json").counts["failures"] == 6
    assert "slurm_triage_failures_total 6" in (tmp_path / "metrics.prom").read_text()


def test_a_state_folder_that_is_missing_is_said(tmp_path: Path) -> None:
    lines: list[str] = []
    service = Service(Settings(state=tmp_path / "none", history=tmp_path / "h"), Log(lines.append))
    assert (not service.once() and "needs a folder" in lines[0]) or "not found" in lines[0]


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    cluster = Cluster(tmp_path / "slurm")
    cluster.use(monkeypatch)
    config = str(settings_file(tmp_path))
    assert cli.main(["service", "status", "--config", config]) == 1
    assert capsys.readouterr().out.startswith("never swept\n")
    assert cli.main(["service", "sweep", "--config", config]) == 1
    said = {"State": "FAILED", "ExitCode": "1:0"}
    rows = ["|".join(said.get(name, job if name.startswith("JobID") else "") for name in ENDED_FIELDS) for job in JOBS]
    (tmp_path / "ended").write_text("\n".join([*rows, ""]))
    sed = f'exec /bin/sed "s/|/$d/g" {tmp_path}/ended'
    separator = "for word; do case $word in --delimiter=*) d=${word#*=};; esac; done"
    sacct(cluster, joined(JOBS), f"{separator}\ncase \" $* \" in *' -X '*) {sed};; esac")
    assert cli.main(["service", "sweep", "--config", config]) == 0
    capsys.readouterr()
    assert cli.main(["service", "status", "--config", config]) == 0
    out = capsys.readouterr().out
    assert out.startswith("up to date: last sweep ") and "memcg_oom" in out
    assert cli.main(["service", "status", "--json", "--config", config]) == 0
    assert json.loads(capsys.readouterr().out)["up_to_date"] is True
    assert cli.main(["service", "status", "--config", str(tmp_path / "none")]) == 2


def test_it_stops_when_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Cluster(tmp_path / "slurm").use(monkeypatch)
    config = str(settings_file(tmp_path))
    command = [sys.executable, "-m", "slurm_triage", "service", "run", "--config", config]
    process = subprocess.Popen(command, env={**os.environ}, stderr=subprocess.PIPE, cwd=Path(__file__).parents[2])
    assert process.stderr is not None
    assert process.stderr.readline().startswith(b"info started ")
    assert process.stderr.readline().startswith(b"error sweep-failed ")
    began = time.monotonic()
    process.send_signal(signal.SIGTERM)
    assert process.wait(10) == 0 and time.monotonic() - began < 5
    assert process.stderr.read().endswith(b"info stopped\n")
