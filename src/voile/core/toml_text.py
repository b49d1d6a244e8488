"""TOML text, read within limits: the one place that calls `tomllib`.

`tomllib` follows nesting by recursion, and for a dotted key it stores every prefix. A key of 30 kB
takes a gigabyte that way, so depth is counted before parsing.

Pure: standard library only. The audit log's verifier stands on it.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from typing import Any, Final

LARGEST_TOML: Final = 2**20
"""Bytes of a TOML file, and characters of a text."""
DEEPEST: Final = 16
"""Levels of one statement: parts of keys, arrays and inline tables. Our own files have up to 5."""

# Strings and comments are stepped over, since dots and brackets in them mean nothing. One that is
# not closed ends with its line or the text. `*+` never tries again, so the scan is linear.
_TOKEN = re.compile(
    r'"""(?:[^"\\]|\\.|"(?!""))*+(?:"{3,5}|\Z)'
    r"|'''(?:[^']|'(?!''))*+(?:'{3,5}|\Z)"
    r'|"(?:[^"\\\n]|\\.)*+"?'
    r"|'[^'\n]*+'?"
    r"|#[^\n]*+"
    r"|[.,\[\]{}\n]",
    re.DOTALL,
)


def parse_toml(text: str) -> dict[str, Any]:
    """The document in `text`; `ValueError` says why there is none."""
    if len(text) > LARGEST_TOML:
        raise ValueError(f"longer than the {LARGEST_TOML} characters that are read")
    _check_depth(text)
    try:
        return tomllib.loads(text)
    except RecursionError as error:  # the caller itself may stand deep
        raise ValueError("nested too deeply") from error


def split_statements(text: str) -> Iterator[tuple[int, str]]:
    """Headers and assignments with their lines (from 1); one that never ends takes all the rest.

    Cut at line ends outside of strings and brackets, in one pass: parsing again after each line
    takes quadratic time for a long array.
    """
    start, line, brackets = 0, 1, 0
    for token in _TOKEN.finditer(text):
        mark = token[0]
        if mark in ("[", "{"):
            brackets += 1
        elif mark in ("]", "}"):
            brackets = max(0, brackets - 1)
        elif mark == "\n" and not brackets:
            yield line, text[start : token.start()]
            line += text.count("\n", start, token.end())
            start = token.end()
    yield line, text[start:]


def _check_depth(text: str) -> None:
    """Refuse a statement with more than `DEEPEST` levels, counted as if all were tables.

    A decimal point counts as well, until the next comma or line: one level too many at most.
    """
    levels = [0]  # of the statement, then of each bracket that is open
    for token in _TOKEN.finditer(text):
        mark = token[0]
        if mark == ".":
            levels[-1] += 1
        elif mark in "[{":
            levels.append(1)
        elif mark in "]}" and len(levels) > 1:
            levels.pop()
        elif mark == "," or (mark == "\n" and len(levels) == 1):
            levels[-1] = min(1, len(levels) - 1)
        if sum(levels) > DEEPEST:
            line = text.count("\n", 0, token.start()) + 1
            column = token.start() - text.rfind("\n", 0, token.start())
            raise ValueError(
                f"nested more than {DEEPEST} levels deep (at line {line}, column {column})"
            )
