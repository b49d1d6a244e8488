"""Where in a TOML text a field stands.

The parser tells lines only of documents it cannot read. Here a valid document is cut into its
statements (a header, or a key with its value); since each of them is a valid document by itself,
the parser reads their keys, and quoting and escapes need no second parser.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeAlias

from voile.core.toml_text import parse_toml, split_statements

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
