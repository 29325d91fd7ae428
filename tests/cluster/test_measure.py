"""What sdiag prints is counted right, and what was measured is shown whole. Needs no cluster."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.bench import live as bench
from tests.cluster import measure

BEFORE = """\
*******************************************************
sdiag output at Mon Nov 30 18:49:40 2026 (1796064580)
*******************************************************
Server thread count:  1
Jobs submitted: 2
Remote Procedure Call statistics by message type
\tREQUEST_PARTITION_INFO                  ( 2009) count:25     ave_time:112    total_time:2800
\tREQUEST_PING                            ( 1008) count:17     ave_time:84     total_time:1436
\tREQUEST_STATS_INFO                      ( 2035) count:2      ave_time:96     total_time:193

Remote Procedure Call statistics by user
\tuser1           (    1001) count:101    ave_time:171    total_time:17352
\troot            (       0) count:49     ave_time:292    total_time:14330

Pending RPC statistics
\tNo pending RPCs
"""
AFTER = (
    BEFORE.replace("count:25 ", "count:27 ")
    .replace("count:2 ", "count:3 ")
    .replace("count:101 ", "count:104 ")
    .replace(
        "\tREQUEST_PING", "\tREQUEST_FED_INFO                        ( 2049) count:1      ave_time:63\n\tREQUEST_PING"
    )
)


def test_counts_of_sdiag() -> None:
    types, users = measure.counts(BEFORE)
    assert types == {"REQUEST_PARTITION_INFO": 25, "REQUEST_PING": 17, "REQUEST_STATS_INFO": 2}
    assert users == {"user1": 101, "root": 49}
    assert measure.counts("sdiag: error: no answer\n") == ({}, {})


def test_only_what_was_added_is_named() -> None:
    before, after = measure.counts(BEFORE), measure.counts(AFTER)
    added = {"REQUEST_PARTITION_INFO": 2, "REQUEST_FED_INFO": 1, measure.OWN: 1}
    assert measure.more(before[0], after[0]) == added
    assert measure.more(before[1], after[1]) == {"user1": 3}


def test_calls_of_clients_are_noted_and_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sacct = tmp_path / "sacct"
    sacct.write_text(f"#!/bin/sh\necho asked >>{tmp_path}/asked\n")
    sacct.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert measure.calls_of(["sh", "-c", "sacct --version; sacct -D -j 7"]) == ["sacct --version", "sacct -D -j 7"]
    assert (tmp_path / "asked").read_text() == "asked\nasked\n"


def lines(clients: Sequence[str], types: dict[str, int]) -> list[str]:
    measured = {"job": "7", "sacct": [0.1, 0.2, 0.3], "diagnose": [0.9, 1.0, 0.7], "rpcs": 6}
    return list(bench.live_lines({**measured, "types": types, "clients": clients}))


def test_what_was_measured_is_shown() -> None:
    clients = ["sacct --version", "sacct --helpformat", "sacct -D -P -j 7 -o JobID", "sacctmgr --readonly show qos"]
    shown = lines([*clients, "scontrol show job -d 7"], {"REQUEST_PING": 1, "REQUEST_FED_INFO": 2})
    assert shown[0].split() == ["sacct", "-j", "7", "median", "200.0", "ms", "best", "100.0", "ms", "x1.0"]
    assert shown[1].endswith("median   900.0 ms  best   700.0 ms  x4.5")
    assert shown[2] == "one diagnosis: 6 RPCs to slurmctld, 2 queries of slurmdbd (1 by sacct)"
    assert shown[3].endswith(": REQUEST_FED_INFO 2, REQUEST_PING 1")
    assert shown[4].endswith(": 5")
    assert [line.strip() for line in shown[5:]] == [*clients, "scontrol show job -d 7"]
    assert "0 queries of slurmdbd (0 by sacct)" in lines([], {})[2]


def test_without_a_cluster_one_line_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))  # no docker at all
    assert list(bench.bench_live(1)) == ["live: no mini cluster runs; make cluster"]
    docker = tmp_path / "docker"
    for answer in ("exit 0", "exit 1", "echo abc; exit 1"):  # nothing runs; no daemon
        docker.write_text(f"#!/bin/sh\n{answer}\n")
        docker.chmod(0o755)
        assert list(bench.bench_live(1)) == ["live: no mini cluster runs; make cluster"]


def test_a_measurement_that_fails_is_a_line_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    docker = tmp_path / "docker"
    docker.write_text("#!/bin/sh\n[ $1 = ps ] && echo abc && exit 0\necho 'measure: no sacct' >&2; exit 1\n")
    docker.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert list(bench.bench_live(1)) == ["live: could not be measured: measure: no sacct"]
