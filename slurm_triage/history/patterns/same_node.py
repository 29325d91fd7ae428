"""Whether a program fails on the same node, or on another one each time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from slurm_triage.history.patterns.nodes import Placements, compare, work
from slurm_triage.history.patterns.run import LEAST, Holds, Pattern, Run


def same_node(runs: Sequence[Run]) -> Pattern:
    """The answer."""
    worst = next((rate for rate in compare(_placements(runs)) if rate.stands_out), None)
    if worst is not None:
        return Pattern(
            "node",
            Holds.YES,
            f"it fails on {worst.node}: {worst.failed} of {worst.runs} runs there, {worst.expected:.1f} would be usual",
            "the same node again and again: that node, not the program",
            f"sdiag-history nodes; until that is settled: --exclude={worst.node}",
        )
    bad = [run for run in runs if run.cause is not None]
    began = [run.first_node or (run.nodes[0] if len(run.nodes) == 1 else None) for run in bad]
    known = [node for node in began if node]
    if len(known) < LEAST:
        return Pattern("node", Holds.TOO_FEW, f"node: of {len(known) or 'no'} failure is known where it began")
    most, count = Counter(known).most_common(1)[0]
    if len(set(known)) >= LEAST and count * 2 <= len(known):
        says = f"node: {len(known)} failures began on {len(set(known))} different nodes"
        return Pattern("node", Holds.NO, says, "another node each time: not the node")
    return Pattern("node", Holds.TOO_FEW, f"node: {count} of {len(known)} failures began on {most}; that may be chance")


def _placements(runs: Sequence[Run]) -> Placements:
    found = Placements()
    for run in runs:
        one = work(len(run.nodes), 0)  # of all days: it is one program
        if run.cause is not None:
            found.attempt(run.nodes, one, run.first_node)
            continue
        for node in run.nodes:
            found.add(node, one, 1)
    return found
