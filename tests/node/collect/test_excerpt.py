"""Which lines of an output leave the node, and that verdicts do not depend on it."""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Iterator

import pytest

from slurm_triage.case import from_files
from slurm_triage.node.collect import _excerpt
from slurm_triage.node.collect._excerpt import FIRST, LAST, LINE, OF_WORD, excerpt
from slurm_triage.node.collect._output_words import WORDS
from slurm_triage.sources import _catalog
from tests.corpus.load import cases
from tests.node.collect.excerpts import NOISE, buried, compare, outputs

SIZE = 256 * 1024
PLAIN = [b"epoch %d loss 0.5" % number for number in range(1000)]


def taken(lines: list[bytes], size: int = SIZE) -> dict[int, bytes]:
    """The lines that were taken, by number."""
    found = excerpt(b"\n".join(lines) + b"\n", size)
    numbers = itertools.chain.from_iterable(range(first, last + 1) for first, last in found.ranges)
    texts = found.data.split(b"\n")[:-1]
    assert sum(last - first + 1 for first, last in found.ranges) == len(texts)
    return dict(zip(numbers, texts, strict=True))


def test_the_ends_are_always_taken_with_their_numbers() -> None:
    found = taken(PLAIN)
    assert sorted(found) == [*range(1, FIRST + 1), *range(1001 - LAST, 1001)]
    assert found[1000] == b"epoch 999 loss 0.5"


def test_blank_lines_at_the_end_hide_nothing() -> None:
    found = taken([*PLAIN, *[b""] * 500])
    assert found[1000] == b"epoch 999 loss 0.5"


def test_a_telling_line_comes_with_its_neighbours_and_nothing_else() -> None:
    found = taken([*PLAIN[:500], b"RuntimeError: CUDA error: an illegal memory access", *PLAIN[500:]])
    assert sorted(found)[FIRST:-LAST] == [499, 500, 501, 502, 503, 504]
    assert found[501].startswith(b"RuntimeError")


def test_a_traceback_is_taken_whole_up_to_the_line_that_names_the_exception() -> None:
    frames = [b'  File "m.py", line %d, in f%d' % (n, n) for n in range(60)]
    found = taken([*PLAIN[:500], b"Traceback (most recent call last):", *frames, b"my.odd.Thing: 3", *PLAIN[500:]])
    assert [number for number in range(501, 563) if number not in found] == []
    assert found[562] == b"my.odd.Thing: 3"


def test_tracebacks_of_several_ranks_through_each_other() -> None:
    ends = {}
    lines = [*PLAIN[:100]]
    for rank in (0, 1, 11):
        lines.append(b"[rank%d]: Traceback (most recent call last):" % rank)
    for frame in range(30):
        lines += [b"[rank%d]:   in f%d" % (rank, frame) for rank in (0, 1, 11)]
    for rank in (11, 0, 1):
        lines.append(b"[rank%d]: Odd: %d" % (rank, rank))
        ends[len(lines)] = lines[-1]
    found = taken([*lines, *PLAIN])
    assert {number: found.get(number) for number in ends} == ends


def test_a_word_that_stands_everywhere_does_not_push_out_another() -> None:
    lines = [b"validation error %d" % number for number in range(50_000)]
    lines[25_000] = b"slurmstepd: *** JOB 77 CANCELLED ***"
    found = taken(lines, 64 * 1024)
    assert found[25_001] == b"slurmstepd: *** JOB 77 CANCELLED ***"
    assert len(found) < 2 * OF_WORD + FIRST + LAST + 50


def test_of_too_much_the_first_and_the_last_lines_are_taken() -> None:
    words = [word.decode() for word in WORDS if b" " not in word]
    lines = [f"{number} {word} {'x' * 900}".encode() for number, word in enumerate(words * 90)]
    found = taken(lines, 64 * 1024)
    assert 1 in found and len(lines) in found
    assert 48 * 1024 < sum(len(text) + 1 for text in found.values()) <= 64 * 1024


@pytest.mark.parametrize("size", [0, 1, 100, 5000])
def test_the_size_is_kept(size: int) -> None:
    assert len(excerpt(b"error: x\n" * 5000, size).data) <= size


def test_secrets_and_keys_stay_on_the_node() -> None:
    lines = [
        b"error: login --password hunter2 failed",
        b"error: https://me:s3cret@host/x refused",
        b"-----BEGIN RSA PRIVATE KEY-----",
        b"MIIEpAIBAAKCAQEA1234",
        b"fatal00abcdef",
        b"-----END RSA PRIVATE KEY-----",
        b"error: after it",
    ]
    said = b"\n".join(taken(lines).values())
    for secret in (b"hunter2", b"s3cret", b"MIIE", b"fatal00"):
        assert secret not in said
    assert b"error: after it" in said and b"-----END RSA" in said


def test_a_long_line_is_cut_and_a_progress_bar_shows_its_end() -> None:
    bar = b"\r".join(b"%d%%|####|" % n for n in range(5000)) + b"\rRuntimeError: boom"
    found = taken([b"error " + b"y" * 10_000, bar, b"last"])
    assert len(found[1]) == LINE and found[1].startswith(b"error y")
    assert len(found[2]) <= LINE and found[2].endswith(b"RuntimeError: boom")


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\n",
        b"no newline",
        b"\0\xff\xfe error \x1b[31m",
        b"Traceback (most recent call last)",
        b"\xef\xbb\xbferror",
        b"\r\r\r\n",
        b"Traceback (most recent call last)\n" * 300,
    ],
)
def test_odd_files_lose_nothing_and_raise_nothing(data: bytes) -> None:
    found = excerpt(data, SIZE)
    assert found.data.rstrip(b"\n") == data.rstrip(b"\n")


def hostile() -> Iterator[bytes]:
    rnd = random.Random(1)
    yield b"\n" * (8 << 20)
    yield b"x" * (8 << 20)
    yield b"Traceback (most recent call last)\n  x\n" * 200_000
    yield b"".join(b"[rank%d]: Traceback (most recent call last)\n" % n for n in range(150_000))
    yield b"-----BEGIN PRIVATE KEY-----\n" * 200_000
    yield rnd.randbytes(8 << 20)
    yield (b"error " * 10_000 + b"\n") * 120


@pytest.mark.parametrize("data", list(hostile()), ids=range(7))
def test_no_file_takes_long(data: bytes) -> None:
    began = time.process_time()
    assert len(excerpt(data, SIZE).data) <= SIZE
    assert time.process_time() - began < 6.0  # the agent's child has 5 seconds of a quiet machine


def test_the_newest_lines_are_looked_at_where_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_excerpt, "MOST_LINES", 1000)
    lines = [b"line %d" % number for number in range(1, 5001)]
    found = excerpt(b"\n".join(lines) + b"\n", SIZE)
    assert found.skipped >= 4000
    assert found.ranges[-1][1] == 5000
    assert found.data.endswith(b"line 5000\n")


def test_every_line_of_the_catalogs_holds_a_word() -> None:
    """A new signature whose words are not in the list would never reach the service from a node."""
    missed = []
    for folder in ("slurm", "program"):
        catalog = _catalog.load(folder)
        for signature in catalog.signatures:
            for example in (e for form in signature.forms for e in form.examples):
                lines = [line for line in example.split("\n") if catalog.hinted(line)]
                shapes = [line.lower().encode().translate(None, b"0123456789") for line in lines]
                missed += [line for line, s in zip(lines, shapes, strict=True) if not _excerpt._Finder().words([s])]
    assert missed == []


# ------------------------------------------------------------------------------------------ the verdicts


@pytest.mark.parametrize("corpus", ["public-cases", "recorded-witnesses"])
def test_verdicts_of_buried_outputs_are_those_of_the_whole(corpus: str) -> None:
    """`python -m tests.node.collect.excerpts` does it for all corpora."""
    different = []
    for id, files, _ in cases(corpus):
        if names := outputs(files):
            one = compare(id, buried(files, names), names)
            if one.whole != one.part:
                different.append((id, one.whole, one.part))
    assert different == []


def test_without_the_words_verdicts_would_be_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_excerpt, "WORDS", ())
    found = (compare(id, buried(f, n), n) for id, f, _ in cases("public-cases") if (n := outputs(f)))
    assert any(one.whole != one.part for one in found)


def test_a_citation_has_the_number_that_the_line_has_on_the_node() -> None:
    data = NOISE + b"Traceback (most recent call last):\n  x\nKeyError: 'lr'\n" + NOISE
    found = excerpt(data, SIZE)
    ranges = {"job.out": [list(run) for run in found.ranges]}
    (file,) = from_files({"job.out": found.data}, {"line_ranges": ranges}).files
    whole = data.decode().split("\n")
    assert [(number, text) for number, text in file.lines() if whole[number - 1] != text] == []
    assert any(text == "KeyError: 'lr'" and number == 403 for number, text in file.lines())


def test_a_line_with_thousands_of_keys_takes_a_moment() -> None:
    data = b"-----BEGIN PRIVATE KEY-----" * 100_000 + b"\n" + (b"y" * 20_000 + b"\n") * 150
    began = time.process_time()
    found = excerpt(data, 128 * 1024)
    assert time.process_time() - began < 4
    assert b"yyy" not in found.data
