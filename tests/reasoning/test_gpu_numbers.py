"""Which cause the numbers of the NVIDIA driver speak for, whose process they name, and what they say as a set."""

from __future__ import annotations

import pytest

from slurm_triage import causes
from slurm_triage.knowledge import nvlink5, rows, table
from slurm_triage.model import Owner, Strength
from tests.reasoning.build import KEY_ERROR, candidates, confirmed, failed, kernel, sacct, task_exit, told
from tests.reasoning.build import job as job_line
from tests.reasoning.build import step as step_line

QUERY = (
    'Traceback (most recent call last):\n  File "a.py", line 1, in <module>\n    step()\n'
    "RuntimeError: CUDA error: unspecified launch failure\n"
)
UNKNOWN_ERROR = QUERY.replace("unspecified launch failure", "unknown error")


def xid(number: int, rest: str = "", *, pid: str = "", name: str = "python", pci: str = "0000:17:00") -> str:
    """A line of the driver."""
    who = f", pid={pid}, name={name}" if pid else ""
    return f"NVRM: Xid (PCI:{pci}): {number}{who}" + (f", {rest}" if rest else "")


def task(output: str, *lines: str) -> dict[str, str]:
    """A job whose one srun task (pid 900) failed after 99 of 100 seconds, with these lines of the kernel."""
    table_ = sacct(
        job_line("FAILED", "1:0"), step_line("batch", "FAILED", "1:0"), step_line("0", "FAILED", "1:0", tasks=1)
    )
    more = {"kmsg.c1.txt": "".join(lines), "spank.txt": task_exit(99, 0, 1 << 8, pid=900), "sacct.psv": table_}
    return failed(output, more=more)


# ------------------------------------------------------------------------------------------------ the tables


@pytest.mark.parametrize("name", ["nvidia_xid", "nvidia_sxid"])
def test_every_number_is_judged(name: str) -> None:
    roles = table("nvidia")["role"]
    for row in rows(name):
        assert row["role"] in roles, row
        assert bool(row["cause"]) == (row["role"] in ("first", "state", "open")) or row["role"] == "follows", row
        assert not row["cause"] or row["cause"] in causes.all_causes(), row


def test_what_others_are_told_of_by_is_never_the_first() -> None:
    by_number = {row["xid"]: row for row in rows("nvidia_xid")}
    assert {by_number[n]["role"] for n in ("43", "45", "154", "171", "172")} == {"follows"}
    assert {by_number[n]["role"] for n in ("63", "64")} == {"state"}


@pytest.mark.parametrize("row", [r for r in rows("nvidia_xid") if r["role"] == "open"], ids=lambda r: r["xid"])
def test_a_number_that_leaves_it_open_is_a_possibility_and_blames_nobody(row: dict[str, str]) -> None:
    answer = told(task("", kernel(98, xid(int(row["xid"])))))
    assert candidates(answer).get(row["cause"]) == "possible"
    assert answer.owner is not Owner.HARDWARE


@pytest.mark.parametrize("row", [r for r in rows("nvidia_xid") if not r["cause"]], ids=lambda r: r["xid"])
def test_a_number_that_ends_nothing_names_no_cause(row: dict[str, str]) -> None:
    with_line, without = (told(task(KEY_ERROR, text)) for text in (kernel(98, xid(int(row["xid"]))), ""))
    assert with_line.cause == without.cause


def test_an_sxid_without_a_class_is_what_its_number_says() -> None:
    line = "nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): {}"
    fatal = kernel(97, line.format("10006, NVSWITCH Temperature 110C | OVERTEMP Threshold 105C"))
    assert candidates(told(task(UNKNOWN_ERROR, fatal))).get("nvlink_error") == "confirmed"
    harmless = kernel(97, line.format("10005, NVSWITCH Temperature 60C | TSENSE WARN Threshold 90C"))
    assert "nvlink_error" not in candidates(told(task(UNKNOWN_ERROR, harmless)))


def test_the_drivers_own_class_goes_before_the_table() -> None:
    line = kernel(97, "nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 20034, Non-fatal, Link 30 LTSSM Fault Up")
    assert "nvlink_error" not in candidates(told(task(UNKNOWN_ERROR, line)))


# ------------------------------------------------------------------------------------------------ whose process


def test_a_line_that_names_another_process_is_no_more_than_possible() -> None:
    lines = kernel(98, xid(79, "GPU has fallen off the bus.", pid="4242"))
    answer = told(task("", lines))
    assert candidates(answer).get("gpu_fallen_off_bus") in (None, "possible")
    assert answer.owner is not Owner.HARDWARE


def test_a_child_of_a_task_may_be_the_process_where_the_program_failed_at_the_gpu() -> None:
    lines = kernel(98, xid(79, "GPU has fallen off the bus.", pid="4242"))
    answer = told(task(UNKNOWN_ERROR, lines))
    assert (answer.cause, answer.strength) == ("gpu_fallen_off_bus", Strength.LIKELY)
    assert not confirmed(answer)


def test_the_launcher_names_the_child() -> None:
    output = "E0608 19:04:45 api.py:869] failed (exitcode: 1) local_rank: 0 (pid: 4242) of binary: /usr/bin/python\n"
    lines = kernel(98, xid(79, "GPU has fallen off the bus.", pid="4242"))
    assert candidates(told(task(UNKNOWN_ERROR + output, lines))).get("gpu_fallen_off_bus") == "confirmed"


@pytest.mark.parametrize("other", [-400, 400])
def test_a_process_that_was_there_before_or_lives_on_after_the_job_is_not_of_it(other: int) -> None:
    lines = sorted([(other, kernel(other, xid(13, "Graphics Exception", pid="4242"))), (98, kernel(98, xid(31, "MMU Fault", pid="4242")))])  # fmt: skip
    answer = told(task("", *(text for _, text in lines)))
    assert "gpu_app_fault" not in candidates(answer)


def test_pid_0_names_no_process() -> None:
    answer = told(task(UNKNOWN_ERROR, kernel(98, xid(79, "GPU has fallen off the bus.", pid="0"))))
    assert candidates(answer).get("gpu_fallen_off_bus") == "confirmed"


# ------------------------------------------------------------------------------------------------ sets


def test_a_45_that_names_what_it_follows_speaks_for_that() -> None:
    line = xid(45, "Ch 00000001 caused by previous Xid 149", pid="900")
    assert "nvlink_error" in candidates(told(task("", kernel(98, line))))
    assert "nvlink_error" not in candidates(told(task("", kernel(98, xid(45, "Ch 00000001", pid="900")))))


def test_gpus_that_report_their_links_in_the_same_second_are_one_event() -> None:
    rest = "NETIR_LINK_EVT  Fatal   XC0 i0 Link 08 (0x004505c6 0x0 0x0 0x0 0x0 0x0)"
    lines = [kernel(97 + i / 10, xid(149, rest, pci=f"0018:0{i}:00")) for i in range(1, 5)]
    answer = told(task(UNKNOWN_ERROR, *lines))
    (verdict,) = [v for v in answer.considered if v.cause == "nvlink_error"]
    assert any("4 GPUs" in note for note in verdict.notes)
    later = [kernel(10 + 20 * i, xid(149, rest, pci=f"0018:0{i}:00")) for i in range(1, 5)]
    (verdict,) = [v for v in told(task(UNKNOWN_ERROR, *later)).considered if v.cause == "nvlink_error"]
    assert not verdict.notes


def fault(seconds: float, pid: int, name: str, pci: str = "0000:17:00") -> str:
    """GPU code of a program faulted."""
    return kernel(seconds, xid(31, "Ch 00000008, intr 00000000. MMU Fault", pid=str(pid), name=name, pci=pci))


def test_one_gpu_that_faults_under_different_programs_is_suspect() -> None:
    lines = [fault(-900, 100, "lmp"), fault(-500, 200, "gmx"), fault(98, 900, "python")]
    answer = told(task(QUERY, *lines))
    assert (answer.cause, answer.owner) == ("node_hardware_suspect", Owner.ADMIN)
    assert not confirmed(answer)


@pytest.mark.parametrize(
    "lines",
    [
        [fault(-900, 100, "python"), fault(-500, 200, "python"), fault(98, 900, "python")],
        [fault(-900, 100, "lmp", "0000:ca:00"), fault(-500, 200, "gmx", "0000:ca:00"), fault(98, 900, "python")],
        [fault(-900, 100, "lmp"), fault(98, 900, "python")],
    ],
    ids=["one program", "another GPU", "two processes"],
)
def test_the_application_is_meant_otherwise(lines: list[str]) -> None:
    answer = told(task(QUERY, *lines))
    assert (answer.cause, answer.owner) == ("gpu_app_fault", Owner.USER)


# ------------------------------------------------------------------------------------------------ fabric

NOT_UP = (
    "RuntimeError: Unexpected error from cudaGetDeviceCount(). Did you run some cuda functions before calling "
    "NumCudaDevices() that might have already set an error? Error 802: system not yet initialized\n"
)
NO_ADDRESS = "NVRM: knvlinkCheckNvswitchP2pConfig_IMPL: GPU 5 doesn't have a fabric address"


@pytest.mark.parametrize("seconds", [-3000, 90])
def test_a_program_that_a_missing_fabric_keeps_from_starting(seconds: float) -> None:
    answer = told(task(NOT_UP, kernel(seconds, NO_ADDRESS)))
    assert confirmed(answer) == {"fabric_manager"}
    assert answer.owner is Owner.ADMIN


@pytest.mark.parametrize(
    ("output", "line"),
    [
        (NOT_UP, ""),
        (NOT_UP, kernel(300, NO_ADDRESS)),
        (UNKNOWN_ERROR, kernel(-3000, NO_ADDRESS)),
        (NOT_UP + KEY_ERROR, kernel(-3000, NO_ADDRESS)),
    ],
    ids=["no line", "after the job", "another error", "survived"],
)
def test_the_fabric_is_not_proven(output: str, line: str) -> None:
    assert "fabric_manager" not in confirmed(told(task(output, line)))


def test_the_fabric_of_another_node() -> None:
    files = task(NOT_UP)
    files["kmsg.c2.txt"] = kernel(-3000, NO_ADDRESS)
    assert "fabric_manager" not in confirmed(told(files))


# ------------------------------------------------------------------------------------------------ the words of NVLink 5


def words(unit: str, severity: str, why: int, error: int, injected: int = 0) -> str:
    """The text of Xids 144 to 150."""
    return f"{unit} {severity} XC0 i{injected} Link 08 (0x{why:08x} 0x{error:08x} 0x00000000 0x00000000)"


def test_every_row_of_the_sheet_is_found_by_its_own_words() -> None:
    for row in rows("nvidia_nvlink5"):
        error = 1 if row["error_status"] == "any" else int(row["error_status"].partition("|")[0], 16)
        text = words(row["unit_v2"], "Fatal", int(row["v2_value"], 16), error)
        assert row in nvlink5.decoded(int(row["xid"]), text), row


def test_what_is_not_fatal_and_to_be_ignored_speaks_for_nothing() -> None:
    ignored = words("SAW_MVB", "Nonfatal", 0x01, 0x04)
    assert "nvlink_error" not in candidates(told(task(UNKNOWN_ERROR, kernel(97, xid(144, ignored)))))
    fatal = words("SAW_MVB", "Fatal", 0x01, 0x02)
    assert candidates(told(task(UNKNOWN_ERROR, kernel(97, xid(144, fatal))))).get("nvlink_error") == "confirmed"
    injected = words("SAW_MVB", "Fatal", 0x01, 0x02, injected=1)
    assert "nvlink_error" not in candidates(told(task(UNKNOWN_ERROR, kernel(97, xid(144, injected)))))


def test_a_shortened_line_is_taken_as_it_is() -> None:
    line = xid(145, "RLW_RXPIPE Nonfatal XC0 i0 Link 11 (...)")
    assert "nvlink_error" in candidates(told(task(UNKNOWN_ERROR, kernel(97, line))))


def test_the_gpu_that_did_not_only_lose_its_peer() -> None:
    own = words("NETIR_LINK_EVT", "Fatal", 4 << 20 | 0x5C6, 0)
    peer = words("NETIR_LINK_EVT", "Fatal", 33 << 20 | 0x5C6, 0)
    lines = [kernel(97.1, xid(149, own, pci="0018:01:00")), kernel(97.2, xid(149, peer, pci="0018:02:00"))]
    (verdict,) = [v for v in told(task(UNKNOWN_ERROR, *lines)).considered if v.cause == "nvlink_error"]
    assert any("0018:01:00 alone" in note for note in verdict.notes)
    (verdict,) = [v for v in told(task(UNKNOWN_ERROR, lines[0])).considered if v.cause == "nvlink_error"]
    assert not any("alone" in note for note in verdict.notes)


def test_lines_that_the_driver_no_longer_prints() -> None:
    line = (
        "NVRM: Rate limiting GSP RPC error prints for GPU at PCI:0000:3b:00 (printing 1 of every 30).  The GPU likely "
    )
    answer = told(task(UNKNOWN_ERROR, kernel(97, line + "needs to be reset.")))
    assert candidates(answer).get("gpu_firmware_gsp") == "confirmed"
