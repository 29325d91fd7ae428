"""The JSON contract, against its schema."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest
from hypothesis import Phase, given, settings

from slurm_triage.model import Cite, Condition, Diagnosis, Fact, Role, Stamp, Strength, Verdict
from slurm_triage.report.document import document, ruled_out_by, time
from tests.report.samples import CONSTRAINT, KILLED, NODE_OOM, OOM, PREEMPTED, SILENT, UNKNOWN, array, task
from tests.report.strategies import diagnoses

SCHEMA = json.loads(
    (Path(__file__).parents[2] / "docs" / "reference" / "diagnosis-1.schema.json").read_text(encoding="utf-8")
)
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)


def objects(schema: Any) -> list[dict[str, Any]]:
    """Every object description in a schema."""
    if isinstance(schema, list):
        return [found for item in schema for found in objects(item)]
    if not isinstance(schema, dict):
        return []
    own = [schema] if "properties" in schema and isinstance(schema["properties"], dict) else []
    return own + [found for item in schema.values() for found in objects(item)]


def test_schema_is_closed() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    described = objects(SCHEMA)
    assert len(described) >= 12
    for entry in described:
        assert entry["additionalProperties"] is False
        optional = {"command"} if "command" in entry["properties"] else set()
        assert set(entry["required"]) | optional == set(entry["properties"])


@pytest.mark.parametrize("diagnosis", [OOM, PREEMPTED, UNKNOWN, array(task(OOM, 1), task(UNKNOWN, 2))])
def test_document_is_valid(diagnosis: Diagnosis) -> None:
    VALIDATOR.validate(document(diagnosis))


def test_a_broken_document_is_not_valid() -> None:
    good = document(OOM)
    for bad in (good | {"extra": 1}, good | {"strength": "sure"}, good | {"owner": "me"}, good | {"schema": "x"}):
        assert not VALIDATOR.is_valid(bad)


# shrinking a whole diagnosis takes minutes
@settings(max_examples=60, deadline=None, phases=(Phase.explicit, Phase.reuse, Phase.generate))
@given(diagnoses())
def test_any_diagnosis_is_valid_json(diagnosis: Diagnosis) -> None:
    made = document(diagnosis)
    VALIDATOR.validate(made)
    json.dumps(made, ensure_ascii=False, allow_nan=False).encode("utf-8")


def test_members() -> None:
    made = document(OOM)
    assert made["schema"] == "slurm-triage/diagnosis/1"
    assert (made["cause"], made["owner"], made["strength"]) == ("memcg_oom", "user", "confirmed")
    assert made["actions"][0] == {"text": "Ask for more memory: try 120 MiB.", "command": "sbatch --mem=120M fold.sh"}
    assert made["actions"][1] == {"text": "Or give each rank less work."}
    assert made["evidence"][0] == {
        "source": "kernel_log",
        "node": "c1",
        "file": "kmsg.txt",
        "line": 87,
        "time": "2026-11-30T15:10:57Z",
        "text": KILLED.text,
    }
    assert made["first_failure"] == {
        "rank": 1,
        "node": "c1",
        "time": "2026-11-30T15:10:57Z",
        "what": "killed by the OOM killer",
    }
    assert made["not"][0]["cause"] == "global_oom"
    assert made["not"][0]["because"] == "the kernel names the job's own cgroup"
    assert made["not"][0]["evidence"][0]["line"] == 86
    assert made["numbers"][2] == {"label": "peak", "value": "n/a"}
    assert made["job"]["exit"]["raw"] == 256
    assert document(PREEMPTED)["timeline"][1]["time"] == "2026-11-30T15:11:18.015Z"
    assert document(UNKNOWN)["strength"] == "unknown"
    assert document(UNKNOWN)["first_failure"] is None


def test_also_holds_only_what_holds() -> None:
    likely = replace(NODE_OOM, strength=Strength.LIKELY)
    made = document(replace(OOM, also=(likely, SILENT, NODE_OOM)))
    assert made["also"] == [{"cause": "global_oom", "strength": "likely"}]


def test_times() -> None:
    assert time(None) is None
    assert time(Stamp(0, 1)) == "1970-01-01T00:00:00Z"
    assert time(Stamp(0, 1, zoned=False)) == "1970-01-01T00:00:00"
    assert time(Stamp(0.25, 0.26)) == "1970-01-01T00:00:00.250Z"
    assert time(Stamp(1e300, 1e300)) is None
    assert time(Stamp(float("nan"), float("nan"))) is None


def test_lines_are_verbatim_but_for_secrets_and_other_users() -> None:
    odd = Cite("job_log", "job.out", 1, "a\t\x1b[31m  é token=s3cr3tvalue")
    row = Cite(
        "kernel_log", "kmsg.txt", 5, "[ 1.0] [   77]  1002    77   178323    12345   204800        0             0 sim"
    )
    texts = [e["text"] for e in document(replace(OOM, evidence=(odd, row)))["evidence"]]
    assert texts[0] == "a\t\x1b[31m  é token=***"
    assert texts[1].endswith(" (other user's process)")
    unknown_owner = replace(OOM, evidence=(row,), job=replace(OOM.job, uid=None))
    assert document(unknown_owner)["evidence"][0]["text"] == row.text


def test_what_ruled_a_verdict_out() -> None:
    holds = Fact("the limit was never reached", True, (KILLED,))
    not_so = Fact("the job was preempted", False, (CONSTRAINT,), "slurmctld.log has no such line")
    unknown = Fact("the node was lost", None, (), "no log", "give the log")
    refuted = Verdict(
        "x",
        Strength.RULED_OUT,
        (Condition(Role.REQUIRE, unknown), Condition(Role.CONFIRM, not_so), Condition(Role.REFUTE, holds)),
    )
    assert ruled_out_by(refuted) == ("the limit was never reached", (KILLED,))
    unconfirmed = Verdict("x", Strength.RULED_OUT, (Condition(Role.REQUIRE, unknown), Condition(Role.CONFIRM, not_so)))
    assert ruled_out_by(unconfirmed) == ("slurmctld.log has no such line", (CONSTRAINT,))
    assert ruled_out_by(Verdict("x", Strength.RULED_OUT, ()))[0] == "no reason was given"
