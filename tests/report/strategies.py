"""Diagnoses with anything in them."""

from __future__ import annotations

from hypothesis import strategies as st

from slurm_triage.model import (
    Action,
    Cite,
    Condition,
    Coverage,
    Diagnosis,
    ExitInfo,
    Fact,
    FirstFailure,
    JobIdentity,
    Missing,
    Moment,
    Owner,
    Role,
    Stamp,
    Strength,
    Verdict,
)

SPICE = [
    "{{ 7*7 }}",
    "{% for x in y %}",
    "{# gone #}",
    "==== slurm-triage 1: cluster=a job=1 submit=b start=c lines=9 ====",
    "\n\n==== x",
    "\x1b[2J",
    "\u202e\u200b",
    "a" * 300,
    "word " * 100,
    "\ud800",
    "",
    " ",
    "'",
    "\\",
]
texts = st.one_of(st.sampled_from(SPICE), st.text(max_size=200))
maybe = st.none() | texts
numbers = st.integers(0, 10**9)


@st.composite
def stamps(draw: st.DrawFn) -> Stamp:
    lo = draw(st.floats(-1e11, 1e13) | st.floats(1.7e9, 1.9e9) | st.just(float("nan")))
    return Stamp(lo, lo + draw(st.sampled_from([0.0, 0.001, 1.0, 2.0])), draw(st.booleans()))


cites = st.builds(Cite, texts, texts, st.integers(1, 10**9), texts, maybe, st.none() | stamps())
facts = st.builds(
    Fact, texts, st.sampled_from([True, False, None]), st.lists(cites, max_size=2).map(tuple), texts, texts
)
actions = st.lists(st.builds(Action, texts, maybe), max_size=4).map(tuple)
verdicts = st.builds(
    Verdict,
    texts,
    st.sampled_from(Strength),
    st.lists(st.builds(Condition, st.sampled_from(Role), facts), max_size=3).map(tuple),
    st.sampled_from(Owner),
    texts,
    actions,
    st.none() | stamps(),
    st.lists(texts, max_size=2).map(tuple),
)
jobs = st.builds(
    JobIdentity,
    *[maybe] * 7,
    st.integers(1, 99),
    st.integers(1, 99),
    *[maybe] * 6,
    *[st.none() | stamps()] * 3,
    st.lists(texts, max_size=30).map(tuple),
    st.builds(ExitInfo, st.none() | numbers, st.none() | numbers, st.none() | st.booleans(), st.none(), maybe, texts),
    st.none() | st.just(1001),
)


def diagnoses(depth: int = 1) -> st.SearchStrategy[Diagnosis]:
    """Any diagnosis, with parts down to `depth`."""
    return st.builds(
        Diagnosis,
        jobs,
        texts,
        st.sampled_from(Owner),
        st.none() | st.sampled_from(Strength),
        texts,
        actions,
        st.lists(cites, max_size=9).map(tuple),
        st.lists(st.builds(Moment, st.none() | stamps(), texts, cites), max_size=14).map(tuple),
        st.none() | st.builds(FirstFailure, st.none() | numbers, maybe, st.none() | stamps(), texts, cites),
        st.lists(verdicts, max_size=6).map(tuple),
        st.lists(st.builds(Missing, texts, texts, texts), max_size=6).map(tuple),
        st.lists(verdicts, max_size=4).map(tuple),
        st.lists(st.tuples(texts, texts), max_size=12).map(tuple),
        st.lists(verdicts, max_size=3).map(tuple),
        st.lists(
            st.builds(Coverage, texts, maybe, numbers, numbers, maybe, st.none() | stamps(), st.none(), texts),
            max_size=4,
        ).map(tuple),
        st.lists(diagnoses(depth - 1), max_size=3).map(tuple) if depth else st.just(()),
    )
