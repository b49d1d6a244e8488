"""How a round protocol is written into what a checkpoint must agree with.

A run that was broken off is continued under the same text only. So the text holds names that are
given once (`stored_as`) and never change, whatever a class is called later.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from enum import Enum
from typing import Any, Final, TypeVar

Kind = TypeVar("Kind", bound=type)
_NAMES: Final[dict[type, str]] = {}


def stored_as(name: str) -> Callable[[Kind], Kind]:
    """Give a dataclass or an enumeration the name that stands for it in stored texts."""

    def give(kind: Kind) -> Kind:
        _NAMES[kind] = name
        return kind

    return give


def stored_text(value: Any) -> str:
    """The text of a value; a class without a stored name is written as its `repr`."""
    name = _NAMES.get(type(value))
    if name is None:
        return repr(value)
    if isinstance(value, Enum):
        return f"<{name}.{value.name}: {value.value!r}>"
    shown = [each.name for each in fields(value) if each.repr]
    return f"{name}({', '.join(f'{each}={stored_text(getattr(value, each))}' for each in shown)})"
