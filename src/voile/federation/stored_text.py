"""How a round protocol is written into what a checkpoint must agree with.

A run that was broken off is continued under the same text only. So the text holds names that are
given once (`stored_as`) and never change, whatever a class is called later.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from enum import Enum
from pathlib import Path
from typing import Any, Final, TypeVar

from voile.core import array_file
from voile.federation.arrays import Arrays

# --- The arrays of a federation on disk, each file of a kind -------------------------------------


def write_arrays(path: Path, kind: str, arrays: Arrays, label: Mapping[str, Any]) -> Path:
    """Durable when this returns; makes the folder where there is none."""
    path.parent.mkdir(parents=True, exist_ok=True)
    return array_file.write(path, kind, arrays, label)


def file_stem(name: str) -> str:
    """A file name for a stage: letters and digits kept, everything else escaped."""
    return "".join(c if c.isascii() and c.isalnum() else f"-{ord(c):x}-" for c in name)


# --------------------------------------------------------------------------------------------------


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
