"""One spelling for one identifier, whatever it comes from."""

from __future__ import annotations

import datetime
import uuid
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from voile.core.errors import InvalidInput
from voile.core.identifiers import LONGEST, canonical_identifier, canonical_name
from voile.datasets.tables import read_table

SAFE = 2**53 - 1
"""The largest integer that no other one is read as after a detour through floats."""


def canonical(value: object) -> object:
    try:
        return canonical_identifier(value)
    except InvalidInput:
        return "refused"


@given(st.text(max_size=30) | st.integers() | st.floats() | st.decimals() | st.none())
@settings(max_examples=300)
def test_it_is_its_own_canonical_form(value: object) -> None:
    once = canonical(value)
    assert canonical(once) == (once if once != "refused" else canonical("refused"))


@given(st.integers(-SAFE, SAFE))
def test_an_integer_is_spelled_by_its_digits(number: int) -> None:
    spellings: list[Any] = [
        number,
        float(number),
        np.int64(number),
        np.float64(number),
        Decimal(number),
        Decimal(number) * Decimal("1.00"),
        f"{number}",
        f" {number}\n",
        f"{number}.0",
        f"{number}.000",
        f"{number:+}",
        f"{number:+}.0",
        *(["-0", "-0.0", "+0", -0.0, Decimal("-0.0")] if number == 0 else []),
    ]
    assert {canonical_identifier(each) for each in spellings} == {str(number)}


@given(st.lists(st.integers(-SAFE, SAFE), min_size=1, max_size=5), st.booleans())
@settings(max_examples=40, deadline=None)
def test_files_spell_integers_alike_with_and_without_missing_ones(
    tmp_path_factory: pytest.TempPathFactory, numbers: list[int], missing: bool
) -> None:
    folder = tmp_path_factory.mktemp("files")
    given_: list[int | None] = [*numbers, *([None] if missing else [])]
    expected = [None if each is None else str(each) for each in given_]
    for name, column in columns(given_).items():
        path, table = folder / name, pd.DataFrame({"id": column, "x": 1.0})
        table.to_csv(path, index=False) if path.suffix == ".csv" else table.to_parquet(path)
        assert [canonical_identifier(each) for each in read_table(path)["id"]] == expected, name
        assert [canonical_identifier(each) for each in column] == expected, name


def columns(given_: list[int | None]) -> dict[str, Any]:
    """As pandas holds them: floats as soon as one is missing, integers that may be, and text."""
    plain = pd.Series(given_)
    nullable = pd.Series(given_, dtype="Int64")
    text = pd.Series([None if each is None else f" {each} " for each in given_], dtype=object)
    held = {"plain": plain, "nullable": nullable, "text": text}
    return {f"{name}.{ending}": c for name, c in held.items() for ending in ("csv", "parquet")}


def test_a_written_table_opens_no_second_budget(tmp_path: Path) -> None:
    """The way it happened: an integer column, and the same one where somebody has no number."""
    pd.DataFrame({"id": [7, 8]}).to_parquet(tmp_path / "all.parquet")
    pd.DataFrame({"id": [7, None]}).to_parquet(tmp_path / "some.parquet")
    (tmp_path / "typed.csv").write_text("id\n 7\n")
    found = {
        canonical_identifier(read_table(tmp_path / name)["id"][0])
        for name in ("all.parquet", "some.parquet", "typed.csv")
    }
    assert found == {"7"}


@pytest.mark.parametrize(
    "value",
    [
        *(None, "", " \t", "\ufeff", "\u200b", float("nan"), np.float32("nan"), pd.NA, pd.NaT),
        *(Decimal("NaN"), Decimal("sNaN")),
        *("nan", "NaN", "None", "null", "NULL", "<NA>", "NA", "N/A", "none", "Null", "na", "nAt"),
        *("\u3164", "\u2800 \u2800", "\ufe0f", "-NaN", "n\u034fil"),
    ],
)
def test_nobody_is_named(value: object) -> None:
    assert canonical_identifier(value) is None


@pytest.mark.parametrize(
    "value",
    [
        *(7.5, float("inf"), -float("inf"), float(2**53), 1e300, np.float32(2**24)),
        *(np.float16(2048), Decimal("7.5"), Decimal("Infinity"), Decimal("1E+1000000")),
        *(True, np.True_, b"7", np.bytes_(b"7"), 7j, Fraction(7, 1), 10 ** (LONGEST + 1)),
        *(datetime.date(2026, 1, 1), np.datetime64("2026-01-01"), uuid.UUID(int=7)),
        *([7], np.array([7]), {"id": 7}, object(), "x" * (LONGEST + 1), "\ud800"),
        *("1e+05", "1.23457E+12", "7.000e+00"),
        *("1.2345678E7", "1e5", "1E5", "1.0E5", "1.5e3", "1E16", "-2e0", ".5e1", " 1\u200be5 "),
        *("9007199254740992.0", "-9007199254740992.", f"{10**40}.00"),
    ],
)
def test_what_is_neither_an_integer_nor_text_is_refused(value: object) -> None:
    with pytest.raises(InvalidInput, match="an integer or a text"):
        canonical_identifier(value)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Zoe\u0301", "Zoé"),
        ("ada lovelace", " ada \u00a0 lovelace\n"),
        ("ada", "a\u200bd\u00ada"),
        ("a\u0301", "a\u200d\u0301"),
        ("ada lovelace", "ada\u2800lovelace\u2800"),
        ("+007", "007"),
        ("9007199254740991.0", "9007199254740991"),
        ("-00", "00"),
        ("\uff17", "7"),
        ("\uff0b\uff17\uff0e\uff10", "7"),
        ("\uff21da", "Ada"),
        ("\u2460", "1"),
        ("ada\u3000lovelace", "ada lovelace"),
    ],
)
def test_texts_that_look_alike_are_one(one: str, other: str) -> None:
    assert canonical_identifier(one) == canonical_identifier(other) is not None


IGNORABLE = [
    *(0xAD, 0x34F, 0x61C, 0x115F, 0x1160, 0x17B4, 0x17B5, *range(0x180B, 0x1810)),
    *(*range(0x200B, 0x2010), *range(0x202A, 0x202F), *range(0x2060, 0x2070), 0x3164),
    *(*range(0xFE00, 0xFE10), 0xFEFF, 0xFFA0, *range(0xFFF0, 0xFFFC), 0x1BCA0, 0x1D173),
    *(0xE0001, 0xE0020, *range(0xE0100, 0xE01F0), 0xE0FFF, 0x00, 0x1B, 0x7F),
]


def test_nothing_unseen_opens_a_second_budget() -> None:
    spellings = {f"{a}{chr(code)}{b}" for code in IGNORABLE for a, b in (("ada", ""), ("a", "da"))}
    assert {canonical_identifier(each) for each in spellings} == {"ada"}


@pytest.mark.parametrize("name", ["\uff17", "x\u00b2", "\u00bd", "Wallace\u2122"])
def test_a_public_name_keeps_its_spelling(name: str) -> None:
    """Catalogues were stored with it; no budget hangs on it."""
    assert canonical_name(f" {name} ") == name != canonical_identifier(name)


@pytest.mark.parametrize(("one", "other"), [("Ada", "ada"), ("007", "7"), ("7.5", "7"), ("a", "b")])
def test_case_and_zeros_of_text_count(one: str, other: str) -> None:
    assert canonical_identifier(one) != canonical_identifier(other)
