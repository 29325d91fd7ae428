"""One file of evidence less never makes the diagnosis sure of something else: over the whole corpus.

A confirmed answer without a file must be the same cause as with it, or a coarser or finer word for it. Anything weaker
than confirmed is allowed: what was not collected may be guessed at, not asserted.
"""

from __future__ import annotations

from functools import cache

from slurm_triage import causes
from tests.properties.corpus import Answer, answers, parse, parsed, related

Key = tuple[str | None, str | None]
MANIFEST = "manifest.toml"


@cache
def _ablations() -> tuple[tuple[str, str, Answer, dict[Key, Answer], Answer, dict[Key, Answer]], ...]:
    """(case, file that is missing, answers with all files, answers without it)."""
    found = []
    for case in parsed():
        whole = answers(case.study())
        for name in case.evidence:
            found.append((case.id, name, *whole, *answers(case.without(name))))
        if MANIFEST in case.files:
            # times and versions are read with the manifest's help, so this one is read anew
            rest = {name: data for name, data in case.files.items() if name != MANIFEST}
            found.append((case.id, MANIFEST, *whole, *answers(parse(case.id, rest).study())))
    return tuple(found)


def _says(case: str, name: str, whole: Answer, less: Answer) -> str:
    sure = "confirmed" if whole.confirmed else "not confirmed"
    return f"{case}: {whole.cause} ({sure}), without {name} {less.cause} is confirmed"


def test_the_corpus_is_there() -> None:
    assert len(_ablations()) > 1000


def test_a_missing_file_never_confirms_another_cause() -> None:
    wrong = [
        _says(case, name, whole, less)
        for case, name, whole, _, less, _ in _ablations()
        if less.confirmed and not related(less.cause, whole.cause)
    ]
    assert not wrong, "\n".join(wrong)


def test_a_missing_file_never_confirms_another_cause_of_an_attempt() -> None:
    wrong = []
    for case, name, _, whole, _, less in _ablations():
        if name == MANIFEST:
            continue  # without zones attempts cannot be told from each other by their start
        for key in whole.keys() & less.keys():
            if less[key].confirmed and not related(less[key].cause, whole[key].cause):
                wrong.append(f"job {key[0]} in " + _says(case, name, whole[key], less[key]))
    assert not wrong, "\n".join(wrong)


def test_a_missing_file_makes_up_no_attempt() -> None:
    """The same start told by two witnesses, one with and one without a zone, is one attempt."""
    more = [
        f"{case}: {len(whole)} attempts, without {name} {len(less)}"
        for case, name, _, whole, _, less in _ablations()
        if len(less) > len(whole)
    ]
    assert not more, "\n".join(more)


def test_no_failure_is_confirmed_only_by_final_accounting_with_steps_and_the_output() -> None:
    wrong = []
    for case, name, _, whole, _, less in _ablations():
        for what, found in (("", whole), (f" without {name}", less)):
            wrong += [
                f"{case}{what}: job {key[0]} started {key[1]}"
                for key, answer in found.items()
                if answer.cause == causes.NO_FAILURE and answer.confirmed and not answer.read
            ]
    assert not wrong, "\n".join(sorted(set(wrong)))
