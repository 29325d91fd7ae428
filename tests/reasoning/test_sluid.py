"""OOM lines of Slurm 26.05 on cgroup v2, which name a job by its SLUID: its own, another job's, nobody knows whose."""

from __future__ import annotations

import json
import re

import pytest

from slurm_triage.case import from_files
from slurm_triage.engine import diagnose
from slurm_triage.model import Diagnosis
from tests.corpus.load import cases
from tests.reasoning.build import (
    CONFIG,
    EPOCH,
    HEAD,
    candidates,
    clock,
    confirmed,
    controller,
    ended,
    failed,
    hook,
    job,
    job_view,
    manifest,
    memcg_kill,
    node_kill,
    sacct,
    step,
    step_info,
    told,
)

MINE, NEXT, OTHER = "s0AHM8PEX3RE00", "s0AHM8PEXBCJ00", "s0AHM8PEWZDX00"
"""Two runs of a requeued job and a run of another one, recorded on Slurm 26.05.5."""
SCOPE = "/system.slice/slurmstepd.scope"
OOM_CAUSES = {"memcg_oom", "memcg_oom_child_only", "global_oom", "oom_numa_cpuset"}


def own_limit(sluid: str, seconds: float = 50) -> str:
    """A kill at the limit of the job of that SLUID."""
    lines = memcg_kill(seconds).replace("/slurm/uid_1001/job_77", f"{SCOPE}/{sluid}")
    return lines.replace("/step_0/task_0", "/step_0/user/task_0")


def killed(kmsg: str, more: dict[str, str] | None = None) -> dict[str, str]:
    """A job that Slurm calls OUT_OF_MEMORY and the kernel log of its node."""
    rows = job("OUT_OF_MEMORY", "0:125"), step("batch", "FAILED", "1:0"), step("0", "OUT_OF_MEMORY", "0:125")
    files = {"manifest.toml": manifest("26.05.5"), "scontrol-config.txt": CONFIG, "sacct.psv": sacct(*rows)}
    return {**files, "kmsg.c1.txt": kmsg, **(more or {})}


def table(*rows: tuple[str, str], column: str = "OriginalSLUID") -> str:
    """sacct -P with one more column."""
    return "\n".join((f"{HEAD}|{column}", *(f"{row}|{sluid}" for row, sluid in rows))) + "\n"


def document(sluid: str) -> str:
    """`sacct --json` of 26.05 with little but the job's SLUID."""
    times = {"start": int(EPOCH), "end": int(EPOCH) + 100, "submission": int(EPOCH) - 10}
    record = {"job_id": 77, "original_sluid": sluid, "sluid": sluid, "association": {}, "nodes": "c1", "time": times}
    return json.dumps({"jobs": [{**record, "state": {"current": ["OUT_OF_MEMORY"]}, "steps": []}]})


def detailed(sluid: str) -> str:
    """`scontrol show job -d`."""
    view = job_view("OUT_OF_MEMORY", "0:125").replace("   UserId=", f"   SLUID={sluid}\n   UserId=", 1)
    return view.replace("   RunTime=", "   DerivedExitCode=0:125\n   RunTime=")


def open_questions(answer: Diagnosis) -> str:
    return "\n".join(f"{item.would_settle}: {item.how}" for item in answer.missing)


WITNESSES = {
    "sacct-json": {"sacct.json": document(MINE)},
    "sacct-text": {
        "sacct.psv": table((job("OUT_OF_MEMORY", "0:125"), MINE), (step("0", "OUT_OF_MEMORY", "0:125"), MINE))
    },
    "slurmctld": {"slurmctld.log": controller().replace("JobId=77 InitPrio", f"JobId=77 SLUID={MINE} InitPrio")},
    "slurmd": {"slurmd.c1.log": f"[{clock(0)}.728] Launching batch JobId=77 SLUID={MINE} for UID 1001\n"},
    "epilog": {"env.epilog_slurmctld.txt": hook(256) + f"SLURM_JOB_SLUID={MINE}\n"},
    "scontrol": {"scontrol_show_job.txt": detailed(MINE)},
    "task-records": {"tasks.c1.txt": step_info(50).replace("\n", f" cgroup={MINE}\n") + ended(50, 0, 9)},
}


@pytest.mark.parametrize("witness", WITNESSES.values(), ids=WITNESSES)
def test_own_limit_through_each_witness(witness: dict[str, str]) -> None:
    answer = told(killed(own_limit(MINE), witness))
    assert confirmed(answer) == {"memcg_oom"}
    assert any(f"oom_memcg={SCOPE}/{MINE}," in cite.text for cite in answer.evidence)
    assert answer.job.job_id == "77"


@pytest.mark.parametrize("witness", WITNESSES.values(), ids=WITNESSES)
def test_limit_of_another_job(witness: dict[str, str]) -> None:
    answer = told(killed(own_limit(OTHER), witness))
    assert (answer.cause, confirmed(answer)) == ("memcg_oom", set())  # Slurm's own count makes it likely
    assert "global_oom" in candidates(answer)
    assert not any(OTHER in cite.text for cite in answer.evidence)
    assert "SLUID" not in open_questions(answer)  # it is known, and that the line is not about this job


def test_nothing_tells_whose_sluid_it_is() -> None:
    answer = told(killed(own_limit(MINE)))
    assert (answer.cause, confirmed(answer)) == ("memcg_oom", set())
    assert "global_oom" in candidates(answer)
    assert not any(MINE in cite.text for cite in answer.evidence)
    assert MINE in open_questions(answer)
    assert "sacct -D -j 77 -P -o JobIDRaw,State,Start,End,OriginalSLUID" in open_questions(answer)


@pytest.mark.parametrize(
    ("kmsg", "asked"),
    [
        (own_limit(MINE, 900), False),
        (own_limit(MINE).replace(MINE, "job_78"), False),
        (memcg_kill(50, cgroup=f"/user.slice/user-1001.slice/slurmstepd.scope/{MINE}"), False),
        (own_limit(MINE), True),
    ],
    ids=["long-after", "numbered", "users-own-cgroup", "in-time"],
)
def test_sluid_is_asked_for_only_where_it_would_help(kmsg: str, asked: bool) -> None:
    assert ("SLUID" in open_questions(told(killed(kmsg)))) is asked


def test_node_out_of_memory() -> None:
    answer = told(killed(node_kill(50, f"{SCOPE}/{MINE}/step_0/user/task_0"), WITNESSES["sacct-json"]))
    assert confirmed(answer) == {"global_oom"}
    assert "memcg_oom" not in candidates(answer)
    other = told(killed(node_kill(50, f"{SCOPE}/{OTHER}/step_0/user/task_0"), WITNESSES["sacct-json"]))
    assert not confirmed(other)


@pytest.mark.parametrize("more", [{}, WITNESSES["slurmd"]], ids=["unknown", "known"])
def test_kill_of_another_job_of_the_same_user_is_no_cause(more: dict[str, str]) -> None:
    lines = own_limit(OTHER) + node_kill(60, f"{SCOPE}/{OTHER}/step_0/user/task_0")
    answer = told(failed("KeyError: 'lr'\n", more={"kmsg.c1.txt": lines, **more}))
    assert not OOM_CAUSES & set(candidates(answer))


def test_array_tasks_do_not_take_each_others_kill() -> None:
    rows = [
        (job("OUT_OF_MEMORY", "0:125", id="78", shown="77_0"), MINE),
        (step("batch", "OUT_OF_MEMORY", "0:125", id="78"), MINE),
        (job("OUT_OF_MEMORY", "0:125", id="77", shown="77_1"), OTHER),
        (step("batch", "OUT_OF_MEMORY", "0:125", id="77"), OTHER),
    ]
    answer = told(killed(own_limit(MINE), {"sacct.psv": table(*rows)}))
    assert {part.job.job_id: confirmed(part) for part in answer.parts} == {"78": {"memcg_oom"}, "77": set()}


# ------------------------------------------------------------------------------------------------ requeue and resize


def requeued(first: str, second: str) -> str:
    """Two attempts, both OUT_OF_MEMORY."""
    return table(
        (job("OUT_OF_MEMORY", "0:125"), first),
        (step("0", "OUT_OF_MEMORY", "0:125"), first),
        (job("OUT_OF_MEMORY", "0:125", start=200, end=300).replace(clock(-10), clock(102)), second),
        (step("0", "OUT_OF_MEMORY", "0:125", start=200, end=300), second),
    )


def of_attempts(answer: Diagnosis) -> list[set[str]]:
    return [confirmed(part) for part in sorted(answer.parts, key=lambda part: part.job.attempt)]


def test_each_attempt_has_its_own() -> None:
    files = killed(own_limit(MINE, 50) + own_limit(OTHER, 250), {"sacct.psv": requeued(MINE, NEXT)})
    assert of_attempts(told(files)) == [{"memcg_oom"}, set()]
    files["kmsg.c1.txt"] = own_limit(OTHER, 50) + own_limit(NEXT, 250)
    assert of_attempts(told(files)) == [set(), {"memcg_oom"}]


def test_attempt_by_the_sluid_where_the_kernels_lines_have_no_time() -> None:
    files = killed(own_limit(MINE), {"manifest.toml": manifest("26.05.5", boot=False)})
    assert of_attempts(told({**files, "sacct.psv": requeued(MINE, NEXT)})) == [{"memcg_oom"}, set()]
    assert of_attempts(told({**files, "sacct.psv": requeued(NEXT, MINE)})) == [set(), {"memcg_oom"}]


def test_sluid_of_one_attempt_says_nothing_of_the_next() -> None:
    """slurmctld's log tells the SLUID at the submission, at its usual level not the one of a requeue."""
    log = f"[{clock(-10)}.100] _slurm_rpc_submit_batch_job: JobId=77 SLUID={MINE} InitPrio=1 usec=667\n"
    more = {"sacct.psv": requeued("", ""), "slurmctld.log": log}
    answer = told(killed(own_limit(NEXT, 50) + own_limit(NEXT, 250), more))
    first, second = sorted(answer.parts, key=lambda part: part.job.attempt)
    assert confirmed(first) == confirmed(second) == set()
    assert "SLUID" not in open_questions(first)
    assert NEXT in open_questions(second)


@pytest.mark.parametrize(
    ("file", "line"),
    [
        (
            "slurmctld.log",
            f"[{clock(-10)}.100] _slurm_rpc_submit_batch_job: JobId=77 SLUID={MINE} InitPrio=1 usec=667\n",
        ),
        ("slurmd.c1.log", f"[{clock(0)}.728] Launching batch JobId=77 SLUID={MINE} for UID 1001\n"),
        ("env.epilog_slurmctld.txt", hook(256) + f"SLURM_JOB_SLUID={MINE}\n"),
    ],
    ids=["submitted", "launched", "ended"],
)
def test_attempt_that_accounting_did_not_show(file: str, line: str) -> None:
    """Without -D sacct shows the last attempt only."""
    last = job("OUT_OF_MEMORY", "0:125", start=200, end=300).replace(clock(-10), clock(102))
    rows = sacct(last, step("0", "OUT_OF_MEMORY", "0:125", start=200, end=300))
    answer = told(killed(own_limit(NEXT, 250), {"sacct.psv": rows, file: line}))
    assert not confirmed(answer)
    assert NEXT in open_questions(answer)


def test_sluid_that_two_attempts_seem_to_have_is_neithers() -> None:
    answer = told(killed(own_limit(NEXT, 50) + own_limit(NEXT, 250), {"sacct.psv": requeued(MINE, MINE)}))
    assert of_attempts(answer) == [set(), set()]
    assert all(NEXT in open_questions(part) for part in answer.parts)


def test_resize_leaves_the_name_of_the_cgroup() -> None:
    """Accounting's SLUID is that of the record: after a resize it is none of a cgroup."""
    rows = [
        job("RESIZING", "0:0", end=20),
        job("OUT_OF_MEMORY", "0:125", start=20),
        step("0", "OUT_OF_MEMORY", "0:125", start=20),
    ]
    both = table((rows[0], MINE), (rows[1], NEXT), (rows[2], NEXT), column="SLUID")
    assert confirmed(told(killed(own_limit(MINE), {"sacct.psv": both}))) == {"memcg_oom"}
    last = table((rows[1], NEXT), (rows[2], NEXT), column="SLUID")
    answer = told(killed(own_limit(MINE), {"sacct.psv": last}))
    assert not confirmed(answer)
    assert MINE in open_questions(answer)


def test_resized_attempt_and_the_next_one() -> None:
    rows = [
        (job("RESIZING", "0:0", end=20), MINE),
        (job("OUT_OF_MEMORY", "0:125", start=20), NEXT),
        (job("OUT_OF_MEMORY", "0:125", start=200, end=300).replace(clock(-10), clock(102)), OTHER),
    ]
    more = {"manifest.toml": manifest("26.05.5", boot=False), "sacct.psv": table(*rows, column="SLUID")}
    assert of_attempts(told(killed(own_limit(MINE), more))) == [{"memcg_oom"}, set()]


# ------------------------------------------------------------------------------------------------ doubt and excerpts


def test_sluid_that_two_jobs_claim_is_nobodys() -> None:
    log = f"[{clock(1)}.1] Launching batch JobId=78 SLUID={MINE} for UID 1002\n"
    answer = told(killed(own_limit(MINE), {"sacct.json": document(MINE), "slurmd.c1.log": log}))
    assert not confirmed(answer)
    assert MINE in open_questions(answer)


def test_sluid_of_a_job_that_is_not_asked_about_is_anothers() -> None:
    log = f"[{clock(1)}.1] Launching batch JobId=78 SLUID={MINE} for UID 1002\n"
    answer = told(killed(own_limit(MINE), {"slurmd.c1.log": log}))
    assert not confirmed(answer)
    assert "SLUID" not in open_questions(answer)


def test_name_of_a_job_does_not_imitate_a_sluid() -> None:
    """Without -d scontrol prints none, so a name with a newline could put one in its place."""
    imitated = detailed(MINE).replace("   DerivedExitCode=0:125\n", "")
    answer = told(killed(own_limit(MINE), {"scontrol_show_job.txt": imitated}))
    assert not confirmed(answer)


def test_line_of_the_jobs_own_output_is_no_witness() -> None:
    out = f"[{clock(0)}.728] Launching batch JobId=77 SLUID={MINE} for UID 1001\n"
    assert not confirmed(told(killed(own_limit(MINE), {"job.out": out})))


def test_kernel_log_alone() -> None:
    answer = told({"manifest.toml": manifest("26.05.5"), "kmsg.c1.txt": own_limit(MINE)})
    assert answer.job.job_id == MINE
    assert confirmed(answer) == {"memcg_oom"}


def test_kernel_log_alone_at_the_limit_of_all_jobs() -> None:
    lines = own_limit(MINE).replace(f"oom_memcg={SCOPE}/{MINE},", f"oom_memcg={SCOPE},")
    answer = told({"manifest.toml": manifest("26.05.5"), "kmsg.c1.txt": lines})
    assert not confirmed(answer)
    assert "SLUID" not in open_questions(answer)


# ------------------------------------------------------------------------------------------------ recorded jobs


def with_sluids(files: dict[str, bytes]) -> dict[str, bytes]:
    """A recorded case of 26.05 (cgroup v1) with the kernel log as cgroup v2 would have it."""
    own = {str(job["job_id"]): job["original_sluid"] for job in json.loads(files["sacct.json"])["jobs"]}

    def renamed(match: re.Match[bytes]) -> bytes:
        scope = f"{match[1].decode()}_slurmstepd.scope"
        return f"/system.slice/{scope}/{own.get(match[2].decode(), OTHER)}".encode()

    old = re.compile(rb"/slurm_([\w-]+)/uid_\d+/job_(\d+)")
    return {name: old.sub(renamed, data) if "kmsg" in name else data for name, data in files.items()}


def answers(files: dict[str, bytes]) -> list[tuple[str | None, str, str]]:
    answer = diagnose(from_files(files))
    return [(p.job.job_id, p.cause, p.strength.value if p.strength else "") for p in answer.parts or (answer,)]


def test_recorded_jobs_get_the_answer_that_their_number_gives() -> None:
    seen = 0
    for name, files, _ in cases("recorded-26.05"):
        new = with_sluids(files)
        if new == files:
            continue
        seen += 1
        expected = answers(files)
        assert answers(new) == expected, name
        less = {file: data for file, data in new.items() if file != "sacct.json"}
        assert answers(less) == expected, name  # hooks, daemons' logs and scontrol know it, too
        few = {file: new[file] for file in new if "kmsg" in file or file in ("manifest.toml", "sacct.psv", "spank.txt")}
        doubtful = [strength for _, cause, strength in answers(few) if cause in OOM_CAUSES]
        assert "confirmed" not in doubtful, name
    assert seen >= 9
