"""What can be recommended. Public: it comes from the shop's own list, never from what was bought.

A catalogue that is read off the interactions would tell which items somebody has touched.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from os import PathLike
from typing import Final

import numpy as np
from numpy.typing import NDArray

from voile.core.digest_names import digest_name
from voile.core.errors import InvalidInput
from voile.core.identifiers import canonical_name
from voile.core.schema import RawColumn
from voile.datasets import read_table

Labels = tuple[tuple[str, ...], ...]
"""For each item its labels of one kind, such as its genres."""
ITEM: Final = "item"
_USER: Final = "user"
TITLE: Final = "title"
BETWEEN_LABELS: Final = "|"
MOST_LABELS: Final = 40
"""Of a kind that models look at: the most frequent ones in the catalogue, which is public."""


@digest_name("voile.recommenders.catalogue.Catalogue")
@dataclass(frozen=True, eq=False)
class Catalogue:
    """Items, and what is publicly known about each.

    Args:
        name: what it is called.
        items: identifiers in their canonical form, all different.
        kinds: by kind (genre, period, brand), for each item its labels; it may have none.
        titles: for people; the identifiers if there are none.
    """

    name: str
    items: tuple[str, ...]
    kinds: Mapping[str, Labels]
    titles: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if len(self.items) < 2 or len(set(self.items)) < len(self.items):
            raise InvalidInput(f"catalogue {self.name!r}: expected two items at least, each once")
        object.__setattr__(self, "titles", tuple(self.titles) or self.items)
        for what, column in [("titles", self.titles), *self.kinds.items()]:
            if len(column) != len(self.items):
                raise InvalidInput(
                    f"catalogue {self.name!r}: expected {what} of {len(self.items)} items, found "
                    f"{len(column)}"
                )

    def __len__(self) -> int:
        return len(self.items)

    def __repr__(self) -> str:
        return f"Catalogue({self.name!r}, {len(self)} items, kinds: {', '.join(self.kinds)})"

    @cached_property
    def places(self) -> dict[str, int]:
        """Of each item, by its identifier."""
        return {item: place for place, item in enumerate(self.items)}

    @cached_property
    def digest(self) -> str:
        """Of everything in it."""
        content = [self.items, self.titles, sorted(self.kinds.items())]
        return hashlib.sha256(json.dumps(content).encode()).hexdigest()

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Of each item for people, all different: its title, with the identifier where needed."""
        often = Counter(self.titles)
        return tuple(
            title if often[title] == 1 else f"{title} [{item}]"
            for title, item in zip(self.titles, self.items, strict=True)
        )

    def labels(self, kind: str) -> tuple[str, ...]:
        """All labels of a kind in order; last, for items that have none, `no KIND`."""
        return self._split(kind)[0]

    def shares(self, kind: str) -> NDArray[np.float64]:
        """How items are split equally among their labels: (items, labels), rows add up to 1."""
        return self._split(kind)[1]

    def _split(self, kind: str) -> tuple[tuple[str, ...], NDArray[np.float64]]:
        """Labels and shares, found out once: every explanation asks for them."""
        if kind not in self._known:
            found = {label for labels in self._of(kind) for label in labels}
            labels = (*sorted(found), f"no {kind}")
            self._known[kind] = labels, self._shares(kind, labels)
        return self._known[kind]

    @cached_property
    def _known(self) -> dict[str, tuple[tuple[str, ...], NDArray[np.float64]]]:
        return {}

    def _shares(self, kind: str, names: tuple[str, ...]) -> NDArray[np.float64]:
        column = {label: place for place, label in enumerate(names)}
        shares = np.zeros((len(self), len(column)))
        for row, labels in enumerate(self._of(kind)):
            named = [column[label] for label in labels] or [len(column) - 1]
            shares[row, named] = 1 / len(named)
        shares.flags.writeable = False
        return shares

    @cached_property
    def features(self) -> NDArray[np.float64]:
        """Zeros and ones for models: 1, then the most frequent labels of each kind."""
        columns = [np.ones(len(self))]
        for kind in sorted(self.kinds):
            counts = Counter(label for labels in self.kinds[kind] for label in labels)
            often = sorted(counts, key=lambda label: (-counts[label], label))[:MOST_LABELS]
            columns += [
                np.array([float(label in labels) for labels in self.kinds[kind]]) for label in often
            ]
        return np.column_stack(columns)

    def _of(self, kind: str) -> Labels:
        if kind not in self.kinds:
            known = ", ".join(sorted(self.kinds)) or "none"
            raise InvalidInput(f"catalogue {self.name!r} knows no {kind!r}; kinds: {known}")
        return self.kinds[kind]


def read_catalogue(path: str | PathLike[str], *, name: str = "catalogue") -> Catalogue:
    """From a public table with the column `item`, perhaps `title`, and a column for each kind.

    Several labels in one cell stand between bars: `Drama|War`.
    """
    return catalogue_of(read_table(path), name=name)


def catalogue_of(table: Mapping[str, RawColumn], *, name: str) -> Catalogue:
    """The same from columns."""
    if _USER in table:  # before a word is said about what stands in it
        raise InvalidInput(
            f"catalogue {name!r}: has a column {_USER!r}, like interactions, which are protected; "
            "give the public file of items here, and interactions after it"
        )
    if ITEM not in table:
        raise InvalidInput(
            f"catalogue {name!r}: expected a column {ITEM!r}, found {', '.join(table) or 'none'}"
        )
    items = [_identifier(line, each) for line, each in enumerate(table[ITEM].tolist(), start=1)]
    for item, often in Counter(items).items():
        if often > 1:
            raise InvalidInput(f"catalogue {name!r}: item {item!r} is listed {often} times")
    kinds = {
        kind: tuple(split_labels(cell) for cell in column.tolist())
        for kind, column in table.items()
        if kind not in (ITEM, TITLE)
    }
    titles = tuple(map(str, table[TITLE].tolist())) if TITLE in table else ()
    return Catalogue(name, tuple(items), kinds, titles)


def split_labels(cell: object) -> tuple[str, ...]:
    """The labels in one cell, each once."""
    found = (canonical_name(each) for each in str(cell).split(BETWEEN_LABELS))
    return tuple(dict.fromkeys(each for each in found if each is not None))


def _identifier(line: int, cell: object) -> str:
    found = canonical_name(cell)
    if found is None:
        raise InvalidInput(f"catalogue: row {line} has no item")
    return found
