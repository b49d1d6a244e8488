"""One of several kinds, named by its tag.

A closed list of kinds is an enumeration, or a dictionary at the level of its module. A list that
other packages may add to is `ExtensibleKinds`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from importlib.metadata import EntryPoints, entry_points
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
        listed = ", ".join(map(repr, kinds)) or "those that packages add (none is installed)"
        raise InvalidInput(f"{expected} one of {listed}, found {tag!r:.80}") from None


@dataclass(frozen=True)
class ExtensibleKinds(Mapping[str, _Kind]):
    """Kinds of our own and, by entry points, those that installed packages add.

    Nothing is looked up or imported for a tag of our own, which nobody can replace.

    >>> kinds = ExtensibleKinds({"plain": 1}, "voile.examples")
    >>> kinds["plain"], list(kinds)
    (1, ['plain'])

    Args:
        own: by tag.
        group: of entry points; the name of one is its tag, and what it names is the kind.
    """

    own: Mapping[str, _Kind]
    group: str

    def __getitem__(self, tag: object) -> _Kind:
        if tag in self.own:
            return self.own[tag]  # type: ignore[index]
        found = [each for each in self._added if each.name == tag]
        if not found:
            raise KeyError(tag)
        if len(found) > 1:
            packages = ", ".join(each.value for each in found)
            raise InvalidInput(f"{tag!r} is added by several packages ({packages}): keep one")
        try:
            kind: _Kind = found[0].load()
        except (ImportError, AttributeError) as error:
            raise InvalidInput(f"{tag!r} ({found[0].value}) cannot be loaded: {error}") from error
        return kind

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys((*self.own, *(each.name for each in self._added))))

    def __len__(self) -> int:
        return len(list(iter(self)))

    @property
    def _added(self) -> EntryPoints:
        return entry_points(group=self.group)


def member(kind: type[_Enumeration], value: str, field: str = "") -> _Enumeration:
    """The same of an enumeration; a figure must not hang on `is` and a string."""
    with suppress(ValueError):
        return kind(value)
    return chosen({getattr(item, "word", str(item)): item for item in kind}, value, field)
