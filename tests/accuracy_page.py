"""The page docs/explanation/accuracy.md: `python -m tests.accuracy --page` measures everything and writes it.

The figures go to docs/explanation/accuracy.json, the page is made of that file alone (`render`), so that a test can hold
that nobody wrote on the page by hand.
"""

from __future__ import annotations

import json
import sys
import textwrap
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from slurm_triage import __version__
from tests import accuracy, healthy, robustness
from tests.accuracy import Scored
from tests.baselines import HOW_TO_INSTALL, compare
from tests.corpus.load import BUILTIN, PUBLIC, cases

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "explanation"
PAGE = FOLDER / "accuracy.md"
FIGURES = FOLDER / "accuracy.json"
CONFUSIONS = 15
MISSING = 2
"""Missing facts named for a case at most."""

# ------------------------------------------------------------------------------------------------ measuring


def measured(processes: int = accuracy.PROCESSES) -> dict[str, Any]:
    """Everything that the page says, as JSON takes it."""
    corpora: list[dict[str, Any]] = []
    public: list[Scored] = []
    recorded: list[Scored] = []
    for corpus in BUILTIN:
        scored = accuracy.score(corpus, processes)
        print(f"{corpus}: {len(scored)} cases", file=sys.stderr)
        (public if corpus == PUBLIC else recorded).extend(scored)
        corpora.extend(asdict(accuracy.figures(name, group)) for name, group in accuracy.groups(corpus, scored).items())
    loaded = list(cases(PUBLIC))
    said = {s.id: s.answer.cause for s in public}
    print("baselines, changed cases, healthy logs", file=sys.stderr)
    return {
        "version": __version__,
        "corpora": corpora,
        "causes": {"public": _causes(public), "recorded": _causes(recorded)},
        "wrong_confirmed": [wrong for s in (*recorded, *public) if (wrong := _wrong_confirmed(s))],
        "sure": sum(s.expected.derivable and s.expected.sure for s in public),
        "strengths": dict(Counter(s.answer.strength for s in public if s.expected.derivable)),
        "baselines": [asdict(row) for row in compare.compare(loaded, public)],
        "confusions": [*_confusions(public, PUBLIC), *_confusions(recorded, "recorded")],
        "unsettled": [_unsettled(s) for s in public if not s.right or not s.expected.derivable],
        "not_confirmed": _not_confirmed(public),
        "robustness": [robustness.as_dict(robustness.measure(name, loaded, said)) for name in robustness.CHANGES],
        "healthy": healthy.as_dict(healthy.measure(processes=processes)),
    }


def _wrong_confirmed(s: Scored) -> str:
    """What is wrong with it, "" if nothing or not given as confirmed."""
    if not s.expected.derivable or s.right or not s.confirmed:
        return ""
    return f"{s.id}: {s.answer.cause} instead of {s.expected.cause}"


def _causes(scored: Sequence[Scored]) -> list[dict[str, Any]]:
    counted = [s for s in scored if s.expected.derivable]
    found = accuracy.by_cause(counted)
    return [{"cause": cause, **asdict(c), "f1": c.f1} for cause, c in found.items()]


def _confusions(scored: Sequence[Scored], corpus: str) -> list[dict[str, Any]]:
    """Wrong causes first, then right ones that were not the expected one, most frequent first."""
    found: Counter[tuple[str, str, bool]] = Counter()
    for s in scored:
        if s.expected.derivable and s.answer.cause != s.expected.cause:
            found[s.expected.cause, s.answer.cause, s.right] += 1
    order = sorted(found.items(), key=lambda item: (item[0][2], -item[1], item[0]))
    return [{"corpus": corpus, "expected": e, "said": a, "accepted": right, "cases": n} for (e, a, right), n in order]


def _unsettled(s: Scored) -> dict[str, Any]:
    return {
        "id": s.id,
        "expected": s.expected.cause,
        "said": s.answer.cause,
        "strength": s.answer.strength,
        "derivable": s.expected.derivable,
        "right": s.right,
        "missing": list(s.answer.missing[:MISSING]),
    }


def _not_confirmed(scored: Sequence[Scored]) -> list[dict[str, Any]]:
    """Cases whose label is sure, answered rightly but not as confirmed: what the answer lacked."""
    kept = [s for s in scored if s.expected.derivable and s.expected.sure and s.right and not s.confirmed]
    return [_unsettled(s) for s in kept]


# ------------------------------------------------------------------------------------------------ writing

HEAD = """\
# How often it is right

<!-- Made by `python -m tests.accuracy --page` (`make accuracy-page`) from accuracy.json. Do not edit. -->

Measured with version {version} of this program. The figures are in [accuracy.json](accuracy.json), too. What each
figure means: `tests/accuracy.py`.

## What these figures cannot say

- **The cases were seen while the rules were written.** A figure near 1 on them shows that the knowledge is in order,
  not that the next job is diagnosed rightly. The changed cases and the healthy logs below are the better test.
- **The public cases are excerpts.** {public} reports, often one or two lines, of failures that were odd enough to be
  written about. Plain out-of-memory kills and time limits, most of what a site sees, are rare among them.
- **Labels are opinions of people.** {unsure} of the derivable ones are only `likely` by the word of who reported them;
  confirmed recall counts the others. An answer that the label accepts besides the expected one counts as right.
- **{not_derivable} public cases count in no target**: their lines do not hold the cause. They are listed below; {over} of them got
  another cause than the label's as confirmed, which no figure counts.
- **The recorded jobs were made on purpose**, on small clusters without GPU, InfiniBand or a parallel file system: the
  cause is certain, the variety is ours.
- **Small numbers.** Most causes have one to three public cases; one case more or less moves a figure by several
  hundredths.
"""
ABOUT = {
    "corpora": "accuracy: an accepted cause; strict: the expected one; wrong conf.: wrong and given as confirmed; conf. recall: of the"
    " cases with a sure label, answered rightly and as confirmed; false hw: hardware blamed where nobody accepts that; hw recall: of"
    " the cases that hardware caused, said so; citations: cases with a cited line that holds the label's key evidence; false cit.:"
    " citations that are not what the file says.",
    "baselines": "All on the public cases whose lines hold the cause, in the same run. Each baseline is read generously: where one of"
    " its answers may stand for several causes, the right one among them counts ([what stands for what]"
    "(../../tests/baselines/README.md)). None of them says who has to act or cites lines. A baseline's answer counts as confirmed"
    " only where it states a confidence of its own (gpualert: HIGH).",
    "robustness": "The same public cases, changed (`tests/robustness.py`). Same: the answer's cause is that of the unchanged case."
    " These cannot be won by knowing the cases' words: a rule that matches a host name or a line number falls here.",
    "healthy": "Real logs of jobs and nodes that were well, multiplied (`tests/healthy.py`): test suites that provoke crashes and print"
    " them, training with retries, builds, kernel boots, Slurm's daemons. Each is judged alone and with the accounting of a job that"
    " completed with 0:0, and single lines that sound bad likewise, in the middle of an output that goes"
    " on. Any cause but `no_failure` and `unknown` is a false positive.",
}

UNSETTLED = (
    "Public cases that were answered wrongly, and those whose lines do not hold the cause by their label (not derivable): there"
    " `unknown` or `possible` is the best answer. Below them those that were answered rightly, but not as confirmed."
)


def render(data: Mapping[str, Any]) -> str:
    """The page."""
    public = next(row for row in data["corpora"] if row["corpus"] == PUBLIC)
    derivable = public["n"] - public["not_derivable"]
    head = HEAD.format(
        version=data["version"],
        public=public["n"],
        not_derivable=public["not_derivable"],
        over=sum(not r["derivable"] and not r["right"] and r["strength"] == "confirmed" for r in data["unsettled"]),
        unsure=derivable - data["sure"],
    )
    parts = [head, *_sections(data)]
    return "\n".join(parts).rstrip() + "\n"


def _sections(data: Mapping[str, Any]) -> Iterator[str]:
    yield f"## By corpus\n\n{_wrapped(ABOUT['corpora'])}\n"
    yield _table(
        ["corpus", "cases", "F1", "accuracy", "strict", "owner", "wrong conf.", "conf. recall", "false hw", "hw recall", "citations",
         "false cit."],
        ([f"`{r['corpus']}`", r["n"], r["macro_f1"], r["accuracy"], r["strict"], r["owner"], r["wrong_confirmed"],
          r["confirmed_recall"], r["false_hardware"], r["hardware_recall"], r["citation_hits"], r["false_citations"]]
         for r in data["corpora"]),
    )  # fmt: skip
    if data["wrong_confirmed"]:
        yield "Wrong, and given as confirmed:\n\n" + "\n".join(f"- {case}" for case in data["wrong_confirmed"]) + "\n"
    strengths = ", ".join(f"{n} {name}" for name, n in sorted(data["strengths"].items()))
    yield f"Of the derivable public cases the answers were: {strengths}.\n"
    yield f"## Side by side\n\n{_wrapped(ABOUT['baselines'])}\n"
    yield _table(
        ["answered by", "cases", "F1", "accuracy", "no answer", "wrong", "wrong conf.", "conf. recall"],
        ([r["name"], r["problem"]] if r["problem"] else
         [r["name"], r["n"], r["macro_f1"], r["accuracy"], r["unknown"], r["wrong"], r["wrong_confirmed"], r["confirmed_recall"]]
         for r in data["baselines"]),
    )  # fmt: skip
    missing = [r["name"] for r in data["baselines"] if r["problem"]]
    if missing:
        yield f"Not measured here: {', '.join(missing)}; `{HOW_TO_INSTALL}` installs what can be installed.\n"
    yield f"## Changed cases\n\n{_wrapped(ABOUT['robustness'])}\n"
    yield from _robustness(data["robustness"])
    yield f"## Healthy logs\n\n{_wrapped(ABOUT['healthy'])}\n"
    yield from _healthy(data["healthy"])
    yield "## Worst confusions\n\nExpected and said, wrong ones first; accepted: the label takes it as right, too.\n"
    yield _table(
        ["corpus", "expected", "said", "accepted", "cases"],
        ([r["corpus"], f"`{r['expected']}`", f"`{r['said']}`", "yes" if r["accepted"] else "**no**", r["cases"]]
         for r in sorted(data["confusions"], key=lambda r: (r["accepted"], -r["cases"]))[:CONFUSIONS]),
    )  # fmt: skip
    yield from _unsettled_section(data)
    yield "## By cause\n\nAn accepted answer counts as the expected one.\n"
    for title, name in (("Public cases", "public"), ("Recorded jobs", "recorded")):
        yield f"### {title}\n"
        yield _table(
            ["cause", "expected", "said", "F1"],
            ([f"`{r['cause']}`", r["meant"], r["said"], r["f1"]] for r in data["causes"][name]),
        )


def _wrapped(text: str) -> str:
    return textwrap.fill(text, 120, break_long_words=False, break_on_hyphens=False)


def _robustness(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    yield _table(
        ["change", "cases", "accuracy", "owner", "same", "confirmed", "likely", "possible", "unknown", "wrong conf.", "false hw"],
        ([r["change"], r["n"], r["accuracy"], r["owner"], r["same"], r["strengths"]["confirmed"], r["strengths"]["likely"],
          r["strengths"]["possible"], r["unknown"], len(r["wrong_confirmed"]), len(r["false_hardware"])] for r in rows),
    )  # fmt: skip
    yield "What must hold:\n"
    yield "\n".join(f"- {name}: {promise}." for name, (_, promise) in robustness.CHANGES.items()) + "\n"
    broken = [f"- {r['change']}, {kind}: {case}" for r in rows for kind, key in BROKEN.items() for case in r[key]]
    yield ("Where it does not hold:\n\n" + "\n".join(broken) if broken else "No wrong answer was confirmed.") + "\n"


BROKEN = {"wrong confirmed": "wrong_confirmed", "false hardware": "false_hardware"}


def _healthy(row: Mapping[str, Any]) -> Iterator[str]:
    yield (
        f"{row['logs']} logs, {row['megabytes']:.0f} MB, {row['lines']} lines (made of {row['distinct_megabytes']:.1f} MB):"
        f" **{len(row['false'])} false positives**.\n"
    )
    if row["false"]:
        yield _table(
            ["log", "said", "because of"],
            ([f["log"], f"`{f['cause']}` ({f['strength']})", f"`{_cell(f['line'])}`"] for f in row["false"]),
        )


def _unsettled_section(data: Mapping[str, Any]) -> Iterator[str]:
    yield f"## What stays unknown, and why\n\n{_wrapped(UNSETTLED)}\n"
    yield _table(
        ["case", "cause by the label", "said", "why", "facts that were missing"],
        ([r["id"], f"`{r['expected']}`", _said(r), _why(r), "; ".join(map(_cell, r["missing"])) or "-"] for r in data["unsettled"]),
    )  # fmt: skip
    yield "Answered rightly, with a sure label, but not as confirmed: what was missing for that.\n"
    yield _table(
        ["case", "said", "facts that were missing"],
        ([r["id"], _said(r), "; ".join(map(_cell, r["missing"])) or "nothing that a file could show: the words may be an echo"]
         for r in data["not_confirmed"]),
    )  # fmt: skip


def _said(row: Mapping[str, Any]) -> str:
    return f"`{row['said']}` ({row['strength']})" if row["said"] != "unknown" else "`unknown`"


def _why(row: Mapping[str, Any]) -> str:
    if not row["derivable"]:
        return "not derivable: " + ("named all the same" if row["right"] else "the lines do not hold it")
    return "wrong"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("`", "'")


def _table(head: Sequence[str], rows: Any) -> str:
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    for row in rows:
        cells = [_text(value) for value in row]
        lines.append("| " + " | ".join([*cells, *[""] * (len(head) - len(cells))]) + " |")
    return "\n".join(lines) + "\n"


def _text(value: object) -> str:
    if value is None:
        return "-"
    return f"{value:.3f}" if isinstance(value, float) else str(value)


def write(processes: int = accuracy.PROCESSES) -> int:
    """Measures, writes both files, prints where. 0 = done."""
    data = json.loads(json.dumps(measured(processes)))
    FIGURES.write_text(json.dumps(data, indent=1, sort_keys=True, ensure_ascii=True) + "\n", "utf-8")
    PAGE.write_text(render(data), "utf-8")
    print(f"{PAGE}\n{FIGURES}")
    return 0
