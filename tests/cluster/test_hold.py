"""The time that the end of a job holds a node, from slurmd's log."""

from __future__ import annotations

from tests.cluster.hold import holds

LOG = """\
[2026-11-30T20:31:45.100] debug:  Finished wait for job 8's prolog to complete
[2026-11-30T20:31:45.170] debug:  Finished wait for job 7's prolog to complete
[2026-11-30T20:31:45.170] debug:  prep/script: _run_spank_job_script: calling /usr/sbin/slurmstepd spank epilog
[2026-11-30T20:31:45.207] debug:  completed epilog for jobid 7
[2026-11-30T20:31:45.300] debug:  completed epilog for jobid 9
[2026-11-30T20:31:46.100] debug:  completed epilog for jobid 8
"""


def test_each_job_has_its_own_time() -> None:
    assert [round(value, 3) for value in holds(LOG)] == [37.0, 1000.0]
    assert holds("") == []
