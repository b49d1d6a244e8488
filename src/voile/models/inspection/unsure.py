"""How a rule says that it does not know."""

from __future__ import annotations

from typing import TypeVar

T = TypeVar("T")


class Unsure(Exception):
    """No rule says that rows stay apart."""


def sure(found: T, holds: bool) -> T:
    """`found`, if the condition holds that it rests on."""
    if not holds:
        raise Unsure
    return found
