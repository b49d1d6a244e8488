"""A shop: what there is, which is public, and who touched what, which is protected.

A user is one record, whatever the number of her lines. Nothing that a line holds is ever told: one
that names no user, or an item that is not in the catalogue, adds nothing; a damaged line is its
user's, as far as she can be read, and adds nothing; a line without a readable rating is an
interaction without a rating; the same pair twice is one interaction. Two spellings of one
identifier are one user (`voile.core.identifiers`). How many users there are is public: who
withdraws keeps a line with an empty item, the null record.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections import Counter
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from os import PathLike
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from voile.core.digest_names import digest_name
from voile.core.errors import InvalidInput
from voile.core.identifiers import canonical_identifier, canonical_name
from voile.core.schema import RawColumn
from voile.datasets import read_protected_table, read_table
from voile.datasets.tables import is_parquet

# --------------------------------------------------------------------------------------------------
# What can be recommended. Public: it comes from the shop's own list, never from what was bought.
# A catalogue that is read off the interactions would tell which items somebody has touched.


Labels = tuple[tuple[str, ...], ...]
"""For each item its labels of one kind, such as its genres."""
ITEM: Final = "item"
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
    if USER in table:  # before a word is said about what stands in it
        raise InvalidInput(
            f"catalogue {name!r}: has a column {USER!r}, like interactions, which are protected; "
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


USER: Final = "user"
RATING: Final = "rating"
TIME: Final = "time"
_COLUMNS: Final = (USER, ITEM, RATING, TIME)
History = NDArray[np.int64]
"""Places in the catalogue of the items that one user has touched, in order."""


@dataclass(frozen=True, eq=False)
class Interactions:
    """All interactions with the items of a catalogue, each pair of user and item once.

    Args:
        catalogue: what there is; public.
        users: canonical identifiers; their number is public. Never a feature of a model.
        user, item: places of each interaction, sorted by user and then item.
        rating, time: NaN where there is none.
    """

    catalogue: Catalogue
    users: tuple[str, ...]
    user: NDArray[np.int64]
    item: NDArray[np.int64]
    rating: NDArray[np.float64]
    time: NDArray[np.float64]

    def __len__(self) -> int:
        """How many users there are."""
        return len(self.users)

    def __repr__(self) -> str:
        return f"Interactions({len(self)} users, {self.catalogue!r})"

    @cached_property
    def matrix(self) -> sparse.csr_array:
        """Ones where a user touched an item, shape (users, items)."""
        shape = len(self.users), len(self.catalogue)
        ones = np.ones(len(self.item))
        return sparse.csr_array((ones, self.item, self._starts), shape=shape)

    @cached_property
    def _starts(self) -> NDArray[np.int64]:
        counts = np.bincount(self.user, minlength=len(self.users))
        return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)

    def history(self, user: str | int) -> History:
        """Of one user, by identifier; nothing for somebody who is not there."""
        place = self._places.get(canonical_identifier(user) or "")
        return self.history_at(place) if place is not None else np.array([], dtype=np.int64)

    def history_at(self, place: int) -> History:
        return self.item[self._starts[place] : self._starts[place + 1]]

    @cached_property
    def _places(self) -> dict[str, int]:
        return {user: place for place, user in enumerate(self.users)}

    def where(self, chosen: NDArray[np.bool_]) -> Interactions:
        """Only these interactions; all users stay."""
        return replace(
            self,
            user=self.user[chosen],
            item=self.item[chosen],
            rating=self.rating[chosen],
            time=self.time[chosen],
        )

    def of_users(self, chosen: NDArray[np.bool_]) -> Interactions:
        """Only these users, with all that they touched."""
        kept = self.where(chosen[self.user])
        places = np.cumsum(chosen) - 1
        users = tuple(user for user, wanted in zip(self.users, chosen, strict=True) if wanted)
        return replace(kept, users=users, user=places[kept.user])


def read_interactions(path: str | PathLike[str], catalogue: Catalogue) -> Interactions:
    """From a protected table `user,item[,rating][,time]`; only its container can be wrong.

    In CSV the user comes first. Behind another column, a damaged cell in front would hide whose
    line it is, or name somebody who is not there: the number of users is public and sets the noise.
    Other columns are refused there: a line break in somebody's text would begin a line of another
    user. Parquet keeps cells apart.
    """
    table = read_protected_table(path, naming=USER)
    first = next(iter(table))
    if USER in table and first != USER and not is_parquet(path):
        raise InvalidInput(
            f"{path}: the column {USER!r} must come first in a CSV file, found {first!r} there. "
            f"Write the columns as user,item[,rating][,time], or save the file as Parquet"
        )
    other = [name for name in table if name not in _COLUMNS]
    if USER in table and other and not is_parquet(path):
        raise InvalidInput(
            f"{path}: a CSV file of interactions has the columns user,item[,rating][,time] alone, "
            f"found {', '.join(map(repr, other))}. Leave them out, or save the file as Parquet: in "
            "CSV a line break in such a cell would begin the line of another user"
        )
    return interactions_of(table, catalogue)


def interactions_of(table: Mapping[str, RawColumn], catalogue: Catalogue) -> Interactions:
    """The same from columns; of a pair that occurs twice the last line counts."""
    missing = [name for name in (USER, ITEM) if name not in table]
    if missing:
        raise InvalidInput(
            f"interactions: expected the columns user,item[,rating][,time], found "
            f"{', '.join(table) or 'none'}"
        )
    names = _each(table[USER], lambda cell: _read(canonical_identifier, cell))
    users = {name: place for place, name in enumerate(dict.fromkeys(filter(None, names)))}
    if not users:
        raise InvalidInput("interactions: expected one user at least, found none")
    items = _each(table[ITEM], lambda cell: catalogue.places.get(_read(canonical_name, cell), -1))
    user = np.array([users.get(name, -1) for name in names], dtype=np.int64)
    item = np.array(items, dtype=np.int64)
    known = np.flatnonzero((user >= 0) & (item >= 0))
    # The last line of each pair, in the order of user and item.
    pairs = user[known] * len(catalogue) + item[known]
    _, last = np.unique(pairs[::-1], return_index=True)
    kept = known[len(known) - 1 - last]
    return Interactions(
        catalogue,
        tuple(users),
        user[kept],
        item[kept],
        _numbers(table.get(RATING), kept),
        _numbers(table.get(TIME), kept),
    )


def _each(column: RawColumn, read: Callable[[Any], Any]) -> list[Any]:
    """Every cell read; equal cells of one type are read once."""
    known: dict[Hashable, Any] = {}
    found = []
    for cell in column.tolist():
        key = type(cell), cell if isinstance(cell, str | int | float) else repr(cell)
        if key not in known:
            known[key] = read(cell)
        found.append(known[key])
    return found


def _read(canonical: Callable[[Any], str | None], cell: Any) -> str:
    """A user or an item, or nothing: what cannot be one is not told."""
    try:
        return canonical(cell) or ""
    except InvalidInput:
        return ""


def _numbers(column: RawColumn | None, kept: NDArray[np.int64]) -> NDArray[np.float64]:
    if column is None:
        return np.full(len(kept), np.nan)
    return np.array([_number(cell) for cell in column[kept].tolist()], dtype=np.float64)


def _number(cell: Any) -> float:
    """A finite number; NaN stands for everything else."""
    try:
        number = float(cell)
    except (TypeError, ValueError, OverflowError):
        return math.nan
    return number if math.isfinite(number) else math.nan
