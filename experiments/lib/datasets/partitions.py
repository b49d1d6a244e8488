"""Spreading rows over clients.

The rules that look at labels (`by_label`, `evenly_by_label`) make experiments look like life. A
partition drawn from private labels depends on them, so parallel composition over its clients does
not hold for the labels; a natural partition (`by_column`) or `at_random` has no such flaw.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from voile.core.errors import InvalidInput


@dataclass(frozen=True, eq=False)
class Partition:
    """Which rows belong to which client; every row belongs to one.

    Args:
        clients: for each client the places of its rows, in rising order.
        rule: how it was made, in words.
    """

    clients: Mapping[str, NDArray[np.intp]]
    rule: str

    def __post_init__(self) -> None:
        if not self.clients or not all(len(places) for places in self.clients.values()):
            raise InvalidInput("a partition needs at least one client, and each at least one row")
        ordered = {name: np.sort(places) for name, places in self.clients.items()}
        every = np.sort(np.concatenate(list(ordered.values())))
        if not np.array_equal(every, np.arange(len(every))):
            raise InvalidInput("in a partition every row belongs to one client and to one only")
        for places in ordered.values():
            places.flags.writeable = False
        object.__setattr__(self, "clients", MappingProxyType(ordered))

    @property
    def sizes(self) -> dict[str, int]:
        return {name: len(places) for name, places in self.clients.items()}

    def counts(self, labels: ArrayLike, names: Sequence[str] | None = None) -> dict[str, Any]:
        """For each client the number of rows of each label; `partition` in `lib/plots.py` draws it.

        `names` are the texts of labels that are given by position.
        """
        values = np.asarray(labels)
        found: dict[str, Any] = {}
        for client, places in self.clients.items():
            distinct, number = np.unique(values[places], return_counts=True)
            texts = [str(v) if names is None else names[int(v)] for v in distinct.tolist()]
            found[client] = dict(zip(texts, number.tolist(), strict=True))
        return found


def at_random(rows: int, clients: int, *, seed: int) -> Partition:
    """Rows dealt out at random, as evenly as possible: every client is like the whole."""
    _check(rows, clients)
    order = np.random.default_rng(seed).permutation(rows)
    return _numbered(np.array_split(order, clients), f"{clients} clients at random")


def by_column(values: ArrayLike) -> Partition:
    """One client for each distinct value: the state, the site, the writer, a published split."""
    column = np.asarray(values)
    if column.ndim != 1 or not len(column):
        raise InvalidInput(f"expected one value for each row, found shape {column.shape}")
    distinct, place = np.unique(column.astype(str), return_inverse=True)
    if column.dtype.kind in "iu":
        distinct, place = np.unique(column, return_inverse=True)
    return Partition(
        {str(value): np.flatnonzero(place == i) for i, value in enumerate(distinct.tolist())},
        f"by a column of {len(distinct)} values",
    )


def by_label(
    labels: ArrayLike, clients: int, *, alpha: float, seed: int, fewest: int = 1
) -> Partition:
    """Each label is spread over the clients by its own Dirichlet draw: sizes and mixes differ.

    Args:
        labels: one for each row.
        clients: how many.
        alpha: the smaller, the less alike the clients; 100 is nearly even.
        seed: which random numbers.
        fewest: draw again until every client has this many rows.
    """
    values = _labels(labels, clients, alpha)
    if fewest * clients > len(values):
        raise InvalidInput(
            f"{clients} clients of at least {fewest} rows need more than {len(values)}"
        )
    draw = np.random.default_rng(seed)
    for _ in range(1000):
        owner = np.empty(len(values), dtype=np.intp)
        for label in np.unique(values):
            places = draw.permutation(np.flatnonzero(values == label))
            ends = np.cumsum(draw.dirichlet(np.full(clients, alpha))) * len(places)
            owner[places] = np.searchsorted(ends[:-1], np.arange(len(places)), side="right")
        sizes = np.bincount(owner, minlength=clients)
        if sizes.min() >= fewest:
            parts = [np.flatnonzero(owner == client) for client in range(clients)]
            return _numbered(parts, f"Dirichlet by label, alpha {alpha:g}")
    raise InvalidInput(
        f"no draw gave every client {fewest} rows; use fewer clients, a larger alpha, or "
        "`evenly_by_label`"
    )


def evenly_by_label(labels: ArrayLike, clients: int, *, alpha: float, seed: int) -> Partition:
    """Clients of equal size whose label mixes come from Dirichlet draws (balanced Dirichlet).

    Each client draws a mix around the overall one and takes rows in that proportion from what is
    left; where a label has run out, it takes others. The rule of FastSHAP++ on the Dutch census.

    Args:
        labels: one for each row.
        clients: how many.
        alpha: the smaller, the less alike the mixes.
        seed: which random numbers.
    """
    values = _labels(labels, clients, alpha)
    draw = np.random.default_rng(seed)
    distinct, place = np.unique(values, return_inverse=True)
    left = [draw.permutation(np.flatnonzero(place == i)).tolist() for i in range(len(distinct))]
    overall = np.array([len(rows) for rows in left]) / len(values)
    parts = []
    for size in np.diff(np.linspace(0, len(values), clients + 1).astype(int)):
        mix = draw.dirichlet(alpha * len(distinct) * overall)
        parts.append(np.array(_take(left, mix, int(size)), dtype=np.intp))
    return _numbered(parts, f"balanced Dirichlet by label, alpha {alpha:g}")


def _take(left: list[list[int]], mix: NDArray[np.float64], size: int) -> list[int]:
    """`size` rows in the proportions of `mix`, as far as they are left."""
    taken: list[int] = []
    while len(taken) < size:
        available = np.array([len(rows) for rows in left])
        share = np.where(available > 0, mix, 0.0)
        if share.sum() <= 0:  # the mix asks only for labels that have run out
            share = available.astype(float)
        exact = share / share.sum() * (size - len(taken))
        wanted = np.minimum(np.floor(exact).astype(int), available)
        if not wanted.any():
            wanted[np.argmax(np.where(available > 0, exact, -1.0))] = 1
        for rows, number in zip(left, wanted.tolist(), strict=True):
            taken += [rows.pop() for _ in range(number)]
    return taken


def _labels(labels: ArrayLike, clients: int, alpha: float) -> NDArray[Any]:
    values = np.asarray(labels)
    if values.ndim != 1:
        raise InvalidInput(f"expected one label for each row, found shape {values.shape}")
    _check(len(values), clients)
    if not 0 < alpha < float("inf"):
        raise InvalidInput(f"alpha must be finite and above 0, found {alpha}")
    return values


def _check(rows: int, clients: int) -> None:
    if not 1 <= clients <= rows:
        raise InvalidInput(f"{rows} rows cannot be spread over {clients} clients")


def _numbered(parts: Sequence[NDArray[np.intp]], rule: str) -> Partition:
    width = len(str(len(parts) - 1))
    return Partition({f"client {i:0{width}}": part for i, part in enumerate(parts)}, rule)
