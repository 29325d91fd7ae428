"""Every catalog is tested against its own examples: a family that does not find its own lines is a defect."""

from __future__ import annotations

import re
import time
from dataclasses import fields
from importlib import resources
from pathlib import Path

import pytest

from slurm_triage.model import Voice
from slurm_triage.sources import _catalog
from slurm_triage.sources._catalog import Catalog, CatalogError, Form, Signature, folders, load, signature_of

FAMILIES = [(folder, signature) for folder in folders() for signature in load(folder).signatures]
IDS = [f"{folder}/{signature.id}" for folder, signature in FAMILIES]
LONG = 64 * 1024
SLOW = 0.05
"""Seconds of processor time for one form on a 64 KiB line: linear forms take under 5 ms, quadratic ones seconds."""


def test_there_are_catalogs() -> None:
    assert "kernel" in folders()


def test_an_id_names_one_family_of_all_folders() -> None:
    """Facts ask by the id alone, and a job's output is searched for several folders at once."""
    ids = [signature.id for _, signature in FAMILIES]
    assert sorted(ids) == sorted(set(ids))


@pytest.mark.parametrize(("folder", "signature"), FAMILIES, ids=IDS)
def test_family(folder: str, signature: Signature) -> None:
    root = resources.files("slurm_triage.sources").joinpath("catalog").joinpath(folder)
    assert root.joinpath(f"{signature.id}.toml").is_file(), "the id is the stem of the file"
    assert re.fullmatch(r"[a-z][a-z0-9_]*", signature.id)
    assert re.fullmatch(r"\d{4}-\d{2}", signature.since)
    known = {other.id for other in load(folder).signatures}
    assert set(signature.also) <= known
    for hint in signature.hints:
        assert len(hint) >= 3, "a shorter hint filters nothing"
    for form in signature.forms:
        for example in form.examples:
            assert signature.hinted(example), f"no hint in {example!r}"
            assert form.pattern.search(example), f"its own form does not match {example!r}"
        for counter in form.counter:
            assert signature.fields(counter) is None, f"must not match {counter!r}"


@pytest.mark.parametrize(("folder", "signature"), FAMILIES, ids=IDS)
def test_examples_belong_to_one_family(folder: str, signature: Signature) -> None:
    for form in signature.forms:
        for example in form.examples:
            for other, _ in load(folder).match(example):
                allowed = {signature.id, *signature.also}
                assert other.id in allowed or signature.id in other.also, f"{example!r} is also {other.id}"


def seconds(pattern: re.Pattern[str], text: str) -> float:
    """Least processor time of up to three searches (another process may take the core in between)."""
    best = float("inf")
    for _ in range(3):
        start = time.process_time()
        pattern.search(text)
        best = min(best, time.process_time() - start)
        if best < SLOW:
            break
    return best


@pytest.mark.parametrize(("folder", "signature"), FAMILIES, ids=IDS)
def test_forms_are_linear(folder: str, signature: Signature) -> None:
    for form in signature.forms:
        lines = ["a" * LONG, " " * LONG, "1" * LONG, "a " * (LONG // 2), "\ufffd" * LONG]
        for example in form.examples[:2]:
            half = example[: max(1, len(example) // 2)]
            most = example[:-1]
            lines += [(part * (LONG // len(part) + 1))[:LONG] for part in (half, example, most) if part]
            lines += [half + fill * (LONG - len(half)) for fill in ("a", " ", "1", "(", ",")]
        for hint in signature.hints:
            lines += [(hint * (LONG // len(hint) + 1))[:LONG], hint + "1" * LONG, hint + " " * LONG]
        for line in lines:
            assert seconds(form.pattern, line) < SLOW, f"slow on {line[:80]!r}..."


@pytest.mark.parametrize("folder", folders())
def test_no_regex_is_tried_on_a_line_without_a_hint(folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def tried(signature: Signature, text: str) -> None:
        raise AssertionError(f"{signature.id} was tried on {text[:20]!r}...")

    catalog = load(folder)
    monkeypatch.setattr(Signature, "fields", tried)
    for line in ("x" * LONG, " " * LONG, "0" * LONG):
        assert catalog.match(line) == []


FAMILY = """
id = "a"
voice = "kernel"
meaning = "m"
since = "2026-11"
sources = ["s"]
hints = ["fault"]
[[form]]
regex = '(?P<n>\\d+) fault'
examples = ["7 fault"]
origin = "format"
[[form]]
regex = 'fault(?P<rest>.*)(?P<no>!)?'
examples = ["fault here"]
origin = "format"
"""


def test_first_matching_form_gives_the_fields() -> None:
    catalog = Catalog((signature_of(FAMILY, "a.toml"),))
    assert [(s.id, s.voice, f) for s, f in catalog.match("12 fault")] == [("a", Voice.KERNEL, {"n": "12"})]
    assert catalog.match("fault x")[0][1] == {"rest": " x"}, "a group that took no part is left out"
    assert catalog.match("12 faul") == []
    assert catalog.get("a").forms[0].examples == ("7 fault",)
    with pytest.raises(KeyError):
        catalog.get("b")


def test_a_hint_within_another_hint_hides_no_family() -> None:
    def one(id: str, hint: str) -> Signature:
        return Signature(id, Voice.KERNEL, "m", "2026-11", ("s",), (hint,), (Form(hint, (hint,), "format"),))

    catalog = Catalog((one("a", "Xid"), one("b", "SXid ")))
    assert [s.id for s, _ in catalog.match("SXid 1")] == ["a", "b"]
    assert [s.id for s, _ in catalog.match("Xid 1")] == ["a"]
    assert catalog.match("Xi 1") == []
    assert Catalog(()).match("Xid 1") == []
    beginning = Catalog((one("a", "abc"), one("b", "abcdef"), one("c", "b.d")))
    assert [s.id for s, _ in beginning.match("abcdef")] == ["a", "b"]
    assert [s.id for s, _ in beginning.match("b.d")] == ["c"]
    assert beginning.match("bxd ab") == []


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ('hints = ["fault"]', "hints must be"),
        ('since = "2026-11"', "since must be"),
        ('voice = "kernel"', "voice must be"),
        ('sources = ["s"]', "sources must be"),
        ('examples = ["fault here"]', "examples must be"),
        ('origin = "format"', "origin must be"),
    ],
)
def test_a_missing_key_is_named(change: str, complaint: str) -> None:
    with pytest.raises(CatalogError, match=complaint):
        signature_of(FAMILY.replace(change, ""), "a.toml")


def test_other_defects_are_named() -> None:
    with pytest.raises(CatalogError, match="unknown keys"):
        signature_of(FAMILY.replace("meaning", "meanings"), "a.toml")
    with pytest.raises(CatalogError, match="not a valid Voice"):
        signature_of(FAMILY.replace('"kernel"', '"nobody"'), "a.toml")
    with pytest.raises(CatalogError, match=r"\[\[form\]\]"):
        signature_of(FAMILY[: FAMILY.index("[[form]]")], "a.toml")
    with pytest.raises(CatalogError, match=r"a\.toml"):
        signature_of("id =", "a.toml")
    with pytest.raises(CatalogError, match="no such catalog"):
        load("not-there")


@pytest.mark.parametrize("folder", folders())
def test_a_family_read_when_asked_is_the_family(folder: str) -> None:
    for found in load(folder).signatures:
        path = Path(_catalog.__file__).parent / "catalog" / folder / f"{found.id}.toml"
        whole = signature_of(path.read_text("utf-8"), path.name)
        assert type(found) is not type(whole), "its hints are not laid out as `hints = [...]` on one or several lines"
        assert {f.name: getattr(found, f.name) for f in fields(whole)} == {
            f.name: getattr(whole, f.name) for f in fields(whole)
        }


def test_few_and_many_lines_are_searched_alike() -> None:
    catalog = Catalog(load("program").signatures)
    lines = [form.examples[0] for signature in catalog.signatures for form in signature.forms]
    lines += [line.lower() for line in lines]
    few = [catalog.hinted(line) for line in lines[: _catalog.FEW]]
    for _ in range(_catalog.FEW):
        catalog.hinted("x")
    assert [catalog.hinted(line) for line in lines[: _catalog.FEW]] == few
    assert any(few) and not all(few)
