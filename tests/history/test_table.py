from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from slurm_triage.report.table import Column, cut, printable, table, width_of

COLUMNS = (
    Column("ID", right=True),
    Column("NAME", least=4),
    Column("STATE", least=3, spare=True),
    Column("NODES", least=6),
)


def test_alignment_folding_and_unknowns() -> None:
    rows: list[list[object]] = [[7, "train", "FAILED", ["c1", "c2", "c3", "x1"]], [1107, None, "TIMEOUT", []]]
    assert table(COLUMNS, rows) == [
        "  ID  NAME   STATE    NODES",
        "   7  train  FAILED   c[1-3],x1",
        "1107  n/a    TIMEOUT  n/a",
    ]
    assert table(COLUMNS, rows, header=False) == table(COLUMNS, rows)[1:]


def test_the_widest_cells_are_cut_first_and_marked() -> None:
    rows: list[list[object]] = [[1, "n" * 40, "FAILED", ["c1"]]]
    line = table(COLUMNS, rows, width=40)[1]
    assert len(line) <= 40
    assert "nnnn+" in line
    assert "FAILED" in line


def test_spare_columns_go_when_cutting_is_not_enough() -> None:
    rows: list[list[object]] = [[12345678, "n" * 40, "FAILED", ["c1"]]]
    lines = table(COLUMNS, rows, width=21)
    assert lines == ["      ID  NAME  NODES", "12345678  nnn+  c1"]


def test_what_may_not_be_cut_stays_whole() -> None:
    assert "12345678901234567890" in table(COLUMNS, [[12345678901234567890, "name", "F", []]], width=10)[1]


def test_wide_and_combining_characters() -> None:
    assert width_of("模型") == 4
    assert width_of("e\u0301") == 1
    assert cut("模型模型", 6) == "模型+"
    assert [
        width_of(line.split("|")[0]) for line in table([Column("A"), Column("B")], [["模", "|"], ["ab", "|"]])[1:]
    ] == [
        4,
        4,
    ]


@given(st.lists(st.tuples(st.text(), st.text(), st.text(), st.lists(st.text(max_size=5), max_size=3)), max_size=4))
def test_any_text_makes_one_safe_line_a_row(rows: list[tuple[str, str, str, list[str]]]) -> None:
    lines = table(COLUMNS, rows, width=80)
    assert len(lines) == len(rows) + 1
    for line in lines:
        assert "\n" not in line
        assert not any(ord(c) < 32 or 127 <= ord(c) < 160 or c in "\u202e\u2066\u2028" for c in line)


@given(st.text(), st.integers(1, 30))
def test_cut_never_exceeds_the_width(text: str, width: int) -> None:
    assert width_of(cut(printable(text), width)) <= width
