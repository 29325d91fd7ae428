"""The comparison of the service's history with the scenarios finds what is missing, too much or wrong."""

from __future__ import annotations

from tests.cluster.scenarios import Expect, Scenario
from tests.cluster.service import judge

BAD = Scenario("oom", "", Expect("memcg_oom", ("user",), never=("global_oom",)), script="x")
CLEAN = Scenario("ok", "", Expect("no_failure", ("nobody",)), script="x")


def test_what_is_missing_too_much_or_wrong() -> None:
    jobs = [(BAD, ["7", "8"], True), (CLEAN, ["9"], False)]
    assert judge({"8": [("memcg_oom", "likely")]}, jobs) == []
    assert judge({"7": [("global_oom", "likely")]}, jobs) == []
    assert "no row" in judge({}, jobs)[0]
    assert "confirmed" in judge({"7": [("global_oom", "confirmed")]}, jobs)[0]
    assert "job 9, ok" in judge({"7": [("memcg_oom", "likely")], "9": [("app_error", "likely")]}, jobs)[0]
