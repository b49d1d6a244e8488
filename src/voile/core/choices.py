"""One of several kinds, named by its tag.

A closed list of kinds is an enumeration, or a dictionary at the level of its module.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from enum import StrEnum
from typing import Any, TypeVar

from voile.core.errors import InvalidInput

_Enumeration = TypeVar("_Enumeration", bound=StrEnum)
_Kind = TypeVar("_Kind")


def chosen(kinds: Mapping[Any, _Kind], tag: object, field: str = "") -> _Kind:
    """What a tag names; `InvalidInput` lists the tags if it names nothing.

    Args:
        field: where the tag stands, for the error.
    """
    try:
        return kinds[tag]
    except (KeyError, TypeError):  # a list, say, cannot even be looked up
        expected = f"{field} must be" if field else "expected"
        listed = ", ".join(map(repr, kinds))
        raise InvalidInput(f"{expected} one of {listed}, found {tag!r:.80}") from None


def member(kind: type[_Enumeration], value: str, field: str = "") -> _Enumeration:
    """The same of an enumeration; a figure must not hang on `is` and a string."""
    with suppress(ValueError):
        return kind(value)
    return chosen({getattr(item, "word", str(item)): item for item in kind}, value, field)
