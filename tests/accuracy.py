"""How often the diagnosis is right, and whether every citation is true: `python -m tests.accuracy [--corpus NAME|DIR]`.

The product is asked through its public functions only (`engine.diagnose`, `report.document.document`), with the files
of one case and nothing else. Figures, all over the cases whose lines hold the cause (`derivable`):

* accuracy: the cause is the expected one or one of the accepted ones (`also`, `also_accept`); strict: the expected one;
* macro-F1: mean of F1 over the causes that are expected somewhere, an accepted answer counting as the expected one;
* owner: the owner is the expected one or one of `owner_accept`;
* wrong confirmed: cases with a wrong cause given as confirmed;
* confirmed recall: share of the cases whose label is sure that are answered rightly and as confirmed (a recorded job's
  label is always sure);
* false hardware: cases with owner hardware where no accepted owner is; hardware recall: share of the cases whose owner
  is hardware that get it;
* unknown: share of cases without a cause;
* citation hit: share of the cases with `key_evidence` where a line of the evidence holds one of those substrings.

`--history FILE` scores what was said at a site against what people corrected there (`tests/accuracy_history.py`).

`--baselines` asks other ways to answer, too (`tests/baselines`), `--healthy` counts false positives on healthy logs
(`tests/healthy.py`), `--page` measures all of it and how robust it is (`tests/robustness.py`), and writes the page.

Exit status: 0 measured, 1 a citation was false, a case made the product fail or a healthy log got a cause, 2 usage.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import multiprocessing
import sys
import time
import traceback
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slurm_triage.case import from_files
from slurm_triage.engine import diagnose
from slurm_triage.history.database import HistoryError
from slurm_triage.report.document import document
from tests import accuracy_history, healthy
from tests.accuracy_text import miss_text, table
from tests.citations import Citations, cites_of, places_of
from tests.corpus.load import BUILTIN, PUBLIC, PUBLIC_MORE, CorpusError, LoadedCase, cases

PROCESSES = 2


@dataclass(frozen=True)
class Expected:
    """The label of a case. `sure`: the case counts for confirmed recall."""

    cause: str
    causes: frozenset[str]
    owner: str
    owners: frozenset[str]
    key_evidence: tuple[str, ...] = ()
    sure: bool = True
    derivable: bool = True
    owner_derivable: bool = True


@dataclass(frozen=True)
class Answer:
    """What the product said of a case. `hit` is None for a case without key evidence; `error` is a traceback."""

    cause: str
    owner: str
    strength: str
    also: tuple[str, ...] = ()
    hit: bool | None = None
    false_citations: tuple[str, ...] = ()
    citations: int = 0
    error: str = ""
    missing: tuple[str, ...] = ()


@dataclass(frozen=True)
class Scored:
    """A case of a corpus with its label and the answer."""

    id: str
    expected: Expected
    answer: Answer

    @property
    def right(self) -> bool:
        """The cause is an accepted one."""
        return self.answer.cause in self.expected.causes

    @property
    def owner_right(self) -> bool:
        """The owner is an accepted one."""
        return self.answer.owner in self.expected.owners

    @property
    def confirmed(self) -> bool:
        """The answer was given as confirmed."""
        return self.answer.strength == "confirmed"


@dataclass(frozen=True)
class Figures:
    """The figures of one corpus. Shares are 0 to 1, None where no case counts; the rest are numbers of cases."""

    corpus: str
    n: int
    not_derivable: int
    macro_f1: float | None
    accuracy: float | None
    strict: float | None
    owner: float | None
    wrong_confirmed: int
    confirmed_recall: float | None
    false_hardware: int
    hardware_recall: float | None
    unknown: float | None
    citation_hits: float | None
    citations: int
    false_citations: int
    failures: int


def expected(label: Mapping[str, Any]) -> Expected:
    """The label of an `expect.toml` (recorded job) or a `case.toml` (public report). Raises `KeyError` without one."""
    if "cause" in label:
        cause, also, sure = label["cause"], label.get("also", ()), True
    else:
        cause, also = label["cause_class"], label.get("also_accept", ())
        sure = label.get("confidence") == "confirmed"
    return Expected(
        cause=cause,
        causes=frozenset((cause, *also)),
        owner=label["owner"],
        owners=frozenset((label["owner"], *label.get("owner_accept", ()))),
        key_evidence=tuple(label.get("key_evidence", ())),
        sure=sure,
        derivable=label.get("derivable", True),
        owner_derivable=label.get("owner_derivable", True),
    )


# ------------------------------------------------------------------------------------------------ asking and scoring


def ask(case: LoadedCase) -> Scored:
    """Diagnoses one case and checks every line that it cites. A failure of the product is the answer's `error`."""
    case_id, files, label = case
    truth = expected(label)
    try:
        diagnosis = diagnose(from_files(files))
        paper = document(diagnosis)
    except Exception:  # whatever it is, the other cases are still to be measured
        return Scored(case_id, truth, Answer("unknown", "unknown", "unknown", error=traceback.format_exc()))
    check = Citations(files)
    cited: set[tuple[str, int, str | None]] = {(c.file, c.line, c.text) for c in cites_of(diagnosis)}
    cited.update(places_of(paper))
    problems = sorted(filter(None, (check.problem(*place) for place in cited)))
    hit: bool | None = None
    if truth.key_evidence:
        evidence = [c for part in (diagnosis, *diagnosis.parts) for c in part.evidence]
        true = [c.text for c in evidence if not check.problem(c.file, c.line, c.text)]
        hit = any(key in text for key in truth.key_evidence for text in true)
    answer = Answer(
        cause=diagnosis.cause,
        owner=diagnosis.owner.value,
        strength=diagnosis.strength.value if diagnosis.strength else "unknown",
        also=tuple(f"{v.cause} ({v.strength.value})" for v in diagnosis.also),
        hit=hit,
        false_citations=tuple(problems),
        citations=len(cited),
        missing=tuple(m.fact for m in diagnosis.missing),
    )
    return Scored(case_id, truth, answer)


@dataclass(frozen=True)
class CauseFigures:
    """One cause: how often it was said (an accepted answer counts as the expected one), meant, and both."""

    said: int
    meant: int
    both: int

    @property
    def f1(self) -> float:
        """Harmonic mean of precision and recall."""
        return 2 * self.both / (self.said + self.meant)


def by_cause(scored: Iterable[Scored]) -> dict[str, CauseFigures]:
    """Figures of every cause that is expected somewhere, by id."""
    said: dict[str, int] = defaultdict(int)
    meant: dict[str, int] = defaultdict(int)
    both: dict[str, int] = defaultdict(int)
    for s in scored:
        answer = s.expected.cause if s.right else s.answer.cause
        said[answer] += 1
        meant[s.expected.cause] += 1
        both[answer] += answer == s.expected.cause
    return {cause: CauseFigures(said[cause], meant[cause], both[cause]) for cause in sorted(meant)}


def macro_f1(scored: Iterable[Scored]) -> float | None:
    """Mean F1 over the causes expected somewhere."""
    causes = by_cause(scored)
    return _share(sum(c.f1 for c in causes.values()), len(causes))


def _share(part: float, whole: int) -> float | None:
    return part / whole if whole else None


def _share_of(scored: Iterable[Scored], test: Callable[[Scored], bool]) -> float | None:
    tested = [test(s) for s in scored]
    return _share(sum(tested), len(tested))


def figures(corpus: str, scored: Sequence[Scored]) -> Figures:
    """The figures of the module's docstring."""
    counted = [s for s in scored if s.expected.derivable]
    owned = [s for s in counted if s.expected.owner_derivable]
    return Figures(
        corpus=corpus,
        n=len(scored),
        not_derivable=len(scored) - len(counted),
        macro_f1=macro_f1(counted),
        accuracy=_share_of(counted, lambda s: s.right),
        strict=_share_of(counted, lambda s: s.answer.cause == s.expected.cause),
        owner=_share_of(owned, lambda s: s.owner_right),
        wrong_confirmed=sum(s.confirmed and not s.right for s in counted),
        confirmed_recall=_share_of((s for s in counted if s.expected.sure), lambda s: s.right and s.confirmed),
        false_hardware=sum(s.answer.owner == "hardware" and not s.owner_right for s in owned),
        hardware_recall=_share_of(
            (s for s in owned if s.expected.owner == "hardware"), lambda s: s.answer.owner == "hardware"
        ),
        unknown=_share_of(counted, lambda s: s.answer.strength == "unknown" or s.answer.cause == "unknown"),
        citation_hits=_share_of((s for s in counted if s.answer.hit is not None), lambda s: bool(s.answer.hit)),
        citations=sum(s.answer.citations for s in scored),
        false_citations=sum(len(s.answer.false_citations) for s in scored),
        failures=sum(bool(s.answer.error) for s in scored),
    )


def score(corpus: str, processes: int = PROCESSES) -> list[Scored]:
    """Asks for every case of a corpus, in the order of ids. Raises `CorpusError`."""
    loaded = list(cases(corpus))
    if processes < 2:
        return [ask(case) for case in loaded]
    with multiprocessing.get_context("spawn").Pool(processes) as pool:  # spawn: also safe where threads run
        return pool.map(ask, loaded, chunksize=8)


def groups(corpus: str, scored: Sequence[Scored]) -> dict[str, list[Scored]]:
    """The cases by the folder that they lie in; a corpus without subfolders is one group, named as the corpus."""
    found: dict[str, list[Scored]] = defaultdict(list)
    for s in scored:
        found["/".join((corpus.rstrip("/"), *s.id.split("/")[:-1]))].append(s)
    return found


# ------------------------------------------------------------------------------------------------ the command


def misses(scored: Sequence[Scored]) -> list[dict[str, Any]]:
    """Every case whose cause or owner is not an accepted one, or that cites falsely or failed."""
    found = []
    for s in scored:
        answer = s.answer
        if s.right and s.owner_right and not answer.false_citations and not answer.error:
            continue
        found.append(
            {
                "id": s.id,
                "expected": sorted(s.expected.causes, key=lambda c: (c != s.expected.cause, c)),
                "got": answer.cause,
                "strength": answer.strength,
                "owner_expected": sorted(s.expected.owners, key=lambda o: (o != s.expected.owner, o)),
                "owner_got": answer.owner,
                "also": list(answer.also),
                "derivable": s.expected.derivable,
                "false_citations": list(answer.false_citations),
                "error": answer.error,
            }
        )
    return found


def main(argv: Sequence[str] | None = None) -> int:
    """Command line; see the module's docstring for the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.accuracy", description="Score the diagnosis over a corpus.")
    parser.add_argument(
        "--corpus", action="append", metavar="NAME|DIR", help=f"{', '.join(BUILTIN)}, {PUBLIC_MORE}, or a folder"
    )
    parser.add_argument(
        "--history",
        type=Path,
        metavar="FILE",
        help="what was said, against the corrections in a history; no corpus then, but those named",
    )
    parser.add_argument("--json", action="store_true", help="figures as JSON")
    parser.add_argument("--list", action="store_true", help="every miss, with what was expected")
    parser.add_argument("--baselines", action="store_true", help="other ways to answer beside it, on the public cases")
    parser.add_argument("--healthy", action="store_true", help="count the false positives on healthy logs, too")
    parser.add_argument("--nodes", action="store_true", help="simulate whom `sdiag-history nodes` blames, and misses")
    parser.add_argument("--page", action="store_true", help="measure everything, write docs/explanation/accuracy.md")
    parser.add_argument("--processes", type=int, default=PROCESSES, metavar="N", help="default %(default)s")
    options = parser.parse_args(argv)
    if options.page:
        from tests.accuracy_page import write  # it needs this module

        return write(options.processes)
    rows: list[Figures] = []
    output: list[dict[str, Any]] = []
    listed: list[str] = []
    further: list[str] = []
    for corpus in options.corpus or (() if options.history else BUILTIN):
        began = time.monotonic()
        try:
            scored = score(corpus, options.processes)
        except CorpusError as error:
            print(f"accuracy: {error}", file=sys.stderr)
            return 2
        print(f"{corpus}: {len(scored)} cases in {time.monotonic() - began:.1f} s", file=sys.stderr)
        for name, group in groups(corpus, scored).items():
            row = figures(name, group)
            missed = misses(group)
            rows.append(row)
            output.append({**dataclasses.asdict(row), **({"misses": missed} if options.list else {})})
            if options.list:
                listed.extend(["", f"{name}: {len(missed)} misses", *map(miss_text, missed)])
        if options.baselines and corpus == PUBLIC:
            from tests.baselines import compare  # likewise

            beside = compare.compare(list(cases(corpus)), scored)
            output.append({"baselines": [dataclasses.asdict(side) for side in beside]})
            further.append(compare.table(beside))
    shown = ["\n".join((table(rows), *listed)), *further] if rows else []
    if options.history:
        try:
            recorded, corrections = accuracy_history.read(options.history)
        except HistoryError as error:
            print(f"accuracy: {error}", file=sys.stderr)
            return 2
        said = accuracy_history.figures(recorded, corrections)
        missed = accuracy_history.misses(corrections) if options.list else []
        shown.append("\n".join((accuracy_history.table(said), *map(accuracy_history.miss_text, missed))))
        output.append({"history": str(options.history), "said": [dataclasses.asdict(row) for row in said]})
        if options.list:
            output[-1]["misses"] = missed
    bad = sum(row.false_citations + row.failures for row in rows)
    if options.healthy:
        found = healthy.measure(processes=options.processes)
        shown.append(healthy.text(found, every=True))
        output.append({"healthy": healthy.as_dict(found)})
        bad += len(found.false)
    if options.nodes:
        from tests.history import simulate

        shown.append("\n".join(simulate.lines()))
    print(json.dumps(output, indent=2, ensure_ascii=True) if options.json else "\n\n".join(shown))
    if bad:
        print(f"accuracy: {bad} false citations, failed cases (--list shows them) or false positives", file=sys.stderr)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
