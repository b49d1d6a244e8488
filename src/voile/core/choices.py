"""One of several kinds, named by its tag.

A closed list of kinds is an enumeration, or a dictionary at the level of its module.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TypeVar

from voile.core.errors import InvalidInput

_Enumeration = TypeVar("_Enumeration", bound=StrEnum)


def member(kind: type[_Enumeration], value: str, field: str = "") -> _Enumeration:
    """What a text names; a figure must not hang on `is` and a string.

    Args:
        field: where the text stands, for the error.
    """
    try:
        return kind(value)
    except ValueError:
        known = ", ".join(repr(str(item)) for item in kind)
        expected = f"{field} must be" if field else "expected"
        raise InvalidInput(f"{expected} one of {known}, found {value!r}") from None
