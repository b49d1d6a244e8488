"""TOML text, read within limits, and where a field stands in it: the one caller of `tomllib`.

`tomllib` follows nesting by recursion, and for a dotted key it stores every prefix. A key of 30 kB
takes a gigabyte that way, so depth is counted before parsing.

Pure: standard library only. The audit log's verifier stands on it.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, TypeAlias

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


# --- Where in a TOML text a field stands ---------------------------------------------------------
# The parser tells lines only of documents it cannot read. Here a valid document is cut into its
# statements (a header, or a key with its value); since each of them is a valid document by itself,
# the parser reads their keys, and quoting and escapes need no second parser.


Path: TypeAlias = tuple[str, ...]

DOCUMENT = "document"
"""The field of problems that are not about one field: a missing file, a syntax error, ..."""

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_ESCAPED = re.compile(r'["\\\x00-\x1f\x7f]')
_KEY = re.compile(r"""(?:"(?:[^"\\\n]|\\.)*+"|'[^'\n]*+'|[^="'\n])*+(?==)""")


def quoted(text: str) -> str:
    """`text` as a TOML string."""
    return '"' + _ESCAPED.sub(lambda found: f"\\u{ord(found[0]):04x}", text) + '"'


def dotted(*path: str) -> str:
    """The TOML key of `path`: `features.age`, or `features."blood pressure"`."""
    return ".".join(key if _BARE_KEY.fullmatch(key) else quoted(key) for key in path)


@dataclass(frozen=True)
class _Statement:
    line: int
    text: str


def line_of(field: str, text: str) -> int:
    """The line (from 1) of `field` in the valid TOML document `text`, or of what encloses it."""
    lines = _lines(text)
    path = _key_path(field) or ()
    while path and path not in lines:
        path = path[:-1]
    return lines.get(path, 1)


@lru_cache(maxsize=1)
def _lines(text: str) -> dict[Path, int]:
    """The first line of every path. Kept: many problems of one file are told one after another."""
    lines: dict[Path, int] = {}
    for line, path in _paths(text):
        lines.setdefault(path, line)
    return lines


def field_at(line: int, text: str) -> str:
    """The field whose statement holds `line`; the document may be broken from there on."""
    field = DOCUMENT
    table: Path = ()
    for statement in _statements(text):
        if statement.line > line:
            break
        header = _header_path(statement.text)
        table = header or table
        path = header or table + (_assigned_path(statement.text) or ())
        field = dotted(*path) if path else DOCUMENT
    return field


def _paths(text: str) -> Iterator[tuple[int, Path]]:
    """Every path that a statement names, with the statement's line; inline tables included."""
    table: Path = ()
    begun: dict[Path, int] = {}
    for statement in _statements(text):
        header = _header_path(statement.text)
        if header is None:
            held = _held(_parsed(statement.text))
            yield from ((statement.line, table + path) for path in held)
            continue
        table = _numbered(header, begun, begins=statement.text.lstrip().startswith("[["))
        yield from ((statement.line, table[:depth]) for depth in range(1, len(table) + 1))


def _numbered(header: Path, begun: dict[Path, int], *, begins: bool) -> Path:
    """The path of a table, with the numbers (from 0) of those in arrays: the latest of each.

    Args:
        begun: how many tables each array has so far; counted on here.
        begins: whether this header begins another one.
    """
    path: Path = ()
    for depth, key in enumerate(header, start=1):
        path = (*path, key)
        if begins and depth == len(header):
            begun[path] = begun.get(path, 0) + 1
        if path in begun:
            path = (*path, str(begun[path] - 1))
    return path


def _statements(text: str) -> Iterator[_Statement]:
    for line, statement in split_statements(text.replace("\r\n", "\n")):
        if statement.strip() and not statement.lstrip().startswith("#"):
            yield _Statement(line, statement)


def _header_path(statement: str) -> Path | None:
    return _only_path(_parsed(statement)) if statement.lstrip().startswith("[") else None


def _assigned_path(statement: str) -> Path | None:
    """The key of `key = value`: what stands before the first equals sign outside of quotes."""
    key = _KEY.match(statement)
    return None if key is None else _key_path(key[0])


def _key_path(key: str) -> Path | None:
    return _only_path(_parsed(f"{key} = 0"))


def _only_path(document: Any) -> Path | None:
    """The path to the one leaf of a document that declares nothing else."""
    if document is None:
        return None
    path: list[str] = []
    while isinstance(document, dict) and document:
        ((key, document),) = document.items()
        path.append(key)
    return tuple(path)


def _held(value: Any) -> Iterator[Path]:
    """Every path in a document."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield (key,)
            yield from ((key, *path) for path in _held(inner))


def _parsed(text: str) -> dict[str, Any] | None:
    try:
        return parse_toml(text)
    except ValueError:
        return None
