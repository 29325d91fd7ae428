"""What runs of one program have in common: each question with a pattern that is there, one that is not, and too few runs."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from slurm_triage.history.patterns.program import patterns
from slurm_triage.history.patterns.run import Holds, Pattern, Run

NODES = tuple(f"n{number:02d}" for number in range(16))


def run(at: int, bad: bool, nodes: Sequence[str] = ("n00",), **more: object) -> Run:
    return Run(str(at), float(at), tuple(nodes), "app_error" if bad else None, **more)  # type: ignore[arg-type]


def answer(about: str, runs: Sequence[Run]) -> Pattern | None:
    return next((one for one in patterns(runs) if one.about == about), None)


def spread(rng: random.Random, count: int, bad: float, **more: object) -> list[Run]:
    """Runs of one node each, that fail by chance, in no order."""
    return [run(at, rng.random() < bad, (rng.choice(NODES),), **more) for at in range(count)]


def test_nothing_failed() -> None:
    assert patterns([run(1, False)]) == [] == patterns([])


# ------------------------------------------------------------------------------------------------ scale


def test_it_fails_from_a_size_on() -> None:
    runs = [run(at, size >= 8, NODES[:size]) for at, size in enumerate((1, 1, 2, 2, 4, 4, 4, 8, 8, 8, 16))]
    found = answer("scale", runs)
    assert found is not None and found.holds is Holds.YES
    assert "up to 4 nodes" in found.says and "from 8 nodes on" in found.says
    assert "6 nodes" in found.next and "collective test" in found.next and "on 8 nodes" in found.next
    assert patterns(runs)[0].holds is Holds.YES


def test_large_and_small_fail_alike() -> None:
    rng = random.Random(5)
    runs = [run(at, rng.random() < 0.4, NODES[: rng.choice((1, 2, 4, 8))]) for at in range(60)]
    found = answer("scale", runs)
    assert found is not None and found.holds is Holds.NO


def test_one_large_run_tells_nothing() -> None:
    runs = [*(run(at, False) for at in range(6)), run(7, True, NODES[:8])]
    found = answer("scale", runs)
    assert found is not None and found.holds is Holds.TOO_FEW


# ------------------------------------------------------------------------------------------------ change


def test_it_fails_since_a_run() -> None:
    runs = [run(at, at >= 9, partition="old" if at < 9 else "new") for at in range(14)]
    found = answer("change", runs)
    assert found is not None and found.holds is Holds.YES
    assert "until job 8" in found.says and "since job 9" in found.says
    assert "partition: old before, new since" in found.means and "job 8 with job 9" in found.next


def test_a_change_of_nothing_recorded_says_so() -> None:
    found = answer("change", [run(at, at >= 9) for at in range(14)])
    assert found is not None and "did not change" in found.means and "image" in found.means


@pytest.mark.parametrize("seed", range(20))
def test_chance_is_no_change(seed: int) -> None:
    assert answer("change", spread(random.Random(seed), 30, 0.3)) is None


def test_two_failures_at_the_end_are_no_change() -> None:
    assert answer("change", [run(at, at >= 10) for at in range(12)]) is None


# ------------------------------------------------------------------------------------------------ node


def test_it_fails_on_one_node() -> None:
    runs = [run(at, node == "n03", (node,)) for at, node in enumerate(NODES[:8] * 5)]
    found = answer("node", runs)
    assert found is not None and found.holds is Holds.YES
    assert "n03: 5 of 5 runs there" in found.says and "--exclude=n03" in found.next


def test_it_fails_on_another_node_each_time() -> None:
    runs = [run(at, at % 3 == 0, NODES[:8], first_node=NODES[at % 8] if at % 3 == 0 else None) for at in range(24)]
    found = answer("node", runs)
    assert found is not None and found.holds is Holds.NO and "not the node" in found.means


def test_twice_on_one_node_is_chance() -> None:
    runs = [run(at, at < 2, (NODES[0],)) for at in range(4)]
    found = answer("node", runs)
    assert found is not None and found.holds is Holds.TOO_FEW


# ------------------------------------------------------------------------------------------------ rank


@pytest.mark.parametrize(("rank", "word"), [(0, "checkpoints"), (5, "part of the work")])
def test_the_same_rank_each_time(rank: int, word: str) -> None:
    runs = [run(at, True, NODES[at : at + 2], rank=rank, tasks=16) for at in range(4)]
    found = answer("rank", runs)
    assert found is not None and found.holds is Holds.YES and f"rank {rank} in 4" in found.says and word in found.means


def test_another_rank_each_time() -> None:
    found = answer("rank", [run(at, True, rank=at * 3, tasks=16) for at in range(5)])
    assert found is not None and found.holds is Holds.NO


def test_the_same_of_two_ranks_is_chance() -> None:
    found = answer("rank", [run(at, True, rank=1, tasks=2) for at in range(3)])
    assert found is not None and found.holds is Holds.TOO_FEW
    found = answer("rank", [run(at, True, rank=1, tasks=1) for at in range(9)])
    assert found is not None and found.holds is Holds.TOO_FEW  # one rank cannot be another one


# ------------------------------------------------------------------------------------------------ time


def test_the_same_time_each_time() -> None:
    found = answer("time", [run(at, True, elapsed=2520.0 + at) for at in range(4)])
    assert found is not None and found.holds is Holds.YES and "42 min" in found.says and "checkpoint" in found.means


def test_runs_that_went_on_longer_take_the_meaning_away() -> None:
    runs = [run(at, at < 4, elapsed=2520.0 if at < 4 else 9000.0) for at in range(8)]
    found = answer("time", runs)
    assert found is not None and not found.means and "4 runs that ended well went on longer" in found.says


def test_how_long_it_takes_anyway_is_no_such_time() -> None:
    assert answer("time", [run(at, at % 2 == 0, elapsed=2520.0 + at) for at in range(8)]) is None


@pytest.mark.parametrize("spans", [(600.0, 900.0, 1200.0), (2.0, 2.0, 2.1), (600.0, 601.0)])
def test_other_times_are_not_said(spans: tuple[float, ...]) -> None:
    assert answer("time", [run(at, True, elapsed=span) for at, span in enumerate(spans)]) is None


def test_a_time_limit_is_no_such_time() -> None:
    runs = [Run(str(at), float(at), ("n00",), "time_limit", elapsed=3600.0) for at in range(5)]
    assert answer("time", runs) is None


# ------------------------------------------------------------------------------------------------ partition, retry


def test_it_fails_in_one_partition() -> None:
    runs = [run(at, at % 2 == 0, partition="arm" if at % 2 == 0 else "x86") for at in range(12)]
    found = answer("partition", runs)
    assert found is not None and "partition arm (6 of 6 failed)" in found.says and "architecture" in found.means


def test_partitions_alike_are_not_said() -> None:
    rng = random.Random(3)
    runs = [run(at, rng.random() < 0.5, partition=rng.choice(("arm", "x86"))) for at in range(30)]
    assert answer("partition", runs) is None
    assert answer("partition", [run(at, True, partition="x86") for at in range(9)]) is None


def test_three_times_the_same_and_nothing_in_between_is_enough() -> None:
    found = answer("retry", [run(1, False), run(2, True), run(3, True), run(4, True)])
    assert found is not None and found.holds is Holds.NO and "last 3 runs" in found.says and "stop" in found.means
    found = answer("retry", [run(1, True), run(2, True), run(3, False), run(4, True)])
    assert found is not None and "stop" not in found.means


def test_another_cause_each_time_is_not_the_same() -> None:
    runs = [Run(str(at), float(at), ("n00",), cause) for at, cause in enumerate(("app_error", "node_fail", "gpu_oom"))]
    found = answer("retry", runs)
    assert found is not None and found.holds is Holds.TOO_FEW


def test_a_retry_that_works_is_worth_it() -> None:
    found = answer("retry", [run(at, at % 2 == 0) for at in range(10)])
    assert found is not None and found.holds is Holds.YES and "worth it" in found.means


# ------------------------------------------------------------------------------------------------ chance


def test_runs_that_fail_by_chance_have_little_in_common() -> None:
    """Of 100 programs that fail by chance on random nodes few get any answer but "retry" that holds."""
    rng = random.Random(11)
    said = 0
    for _ in range(100):
        runs = [
            run(at, rng.random() < 0.3, rng.sample(NODES, rng.choice((1, 2, 4))), rank=rng.randrange(4), tasks=4,
                elapsed=rng.uniform(60, 7200), partition=rng.choice(("a", "b")))
            for at in range(30)
        ]  # fmt: skip
        said += any(one.holds is Holds.YES and one.about != "retry" for one in patterns(runs))
    assert said <= 10
