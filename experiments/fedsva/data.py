"""The federations: 100 clients of equal size, private groups, rows to measure on."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from experiments.fedsva.filters import Floats, filtered
from experiments.lib.datasets import loaders
from voile import datasets
from voile.attribution.fastshap.encoding import Encoding
from voile.core.schema import Schema

MNIST, CIFAR, ADULT = "MNIST by writer", "CIFAR-10 subset", "Adult"
DIGITS, DUTCH = "digits", "Dutch census"
"""To choose settings on; nothing is reported on these two."""
MARRIED: Final = {ADULT: "marital_status=Married-civ-spouse", DUTCH: "marital_status=2"}
CLIENTS: Final = 100
PRIVATE_FEATURES: Final = ("marital_status", "relationship")
Places = NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class Federation:
    """Rows of all clients, and rows held out.

    Args:
        x, y: features (clients, rows, features) and labels (clients, rows).
        test_x, test_y: of people who are at no client.
        private_test: those of the private group: its labels, or on Adult the married.
        private: which features are private; none where groups of rows are.
        blank: what stands for a feature that is left out.
    """

    name: str
    x: Floats
    y: Places
    test_x: Floats
    test_y: Places
    private_test: NDArray[np.bool_]
    classes: int
    private: NDArray[np.bool_]
    blank: Floats

    @property
    def rows(self) -> int:
        return len(self.y[0])

    @property
    def by_columns(self) -> bool:
        """Whether the private attribute is a group of columns, else a group of labels."""
        return bool(self.private.any())


@lru_cache(maxsize=4)
def federation(name: str) -> Federation:
    if name == MNIST:
        return _mnist()
    if name == CIFAR:
        images = loaders.cifar10()
        order = np.random.default_rng(2026).permutation(len(images.train["y"]))
        return _pictures(CIFAR, images, order.reshape(CLIENTS, -1))
    if name == ADULT:
        return _of_table(name, loaders.adult(), PRIVATE_FEATURES)
    if name == DUTCH:
        return _of_table(name, loaders.dutch_census(), ("edu_level",))
    return _digits()


def groups_of(labels: Places, classes: int, groups: int) -> Places:
    """Groups of labels, as even as can be; the first group is the private one."""
    return labels * groups // classes


def blanked(data: Federation) -> Federation:
    """The federation whose private columns are left out."""
    return replace(
        data,
        x=np.where(data.private, data.blank, data.x),
        test_x=np.where(data.private, data.blank, data.test_x),
    )


def _mnist() -> Federation:
    images = loaders.mnist_by_writer()
    return _pictures(MNIST, images, client_places(images))


def client_places(images: loaders.Images) -> Places:
    """Places of each client's rows, (clients, rows): writers are dealt to clients by their number
    of digits, so that sizes come out alike; what makes them unequal is left out."""
    writers, counts = np.unique(images.train["writer"], return_counts=True)
    order = writers[np.argsort(-counts, kind="stable")]
    place = np.arange(len(order))
    turn = place % CLIENTS
    back = place // CLIENTS % 2 == 1
    client = dict(zip(order, np.where(back, CLIENTS - 1 - turn, turn), strict=True))
    owner = np.array([client[writer] for writer in images.train["writer"]])
    mixed = np.random.default_rng(2026).permutation(len(owner))
    owned = [mixed[owner[mixed] == number] for number in range(CLIENTS)]
    rows = min(map(len, owned))
    return np.stack([places[:rows] for places in owned])


def _pictures(name: str, images: loaders.Images, parts: Places) -> Federation:
    x, y = filtered(images.train["x"]), images.train["y"].astype(np.intp)
    tests = np.random.default_rng(7).permutation(len(images.test["y"]))[:5000]
    test_x, test_y = filtered(images.test["x"][tests]), images.test["y"][tests].astype(np.intp)
    return _by_labels(name, (x[parts], y[parts]), (test_x, test_y))


def _by_labels(name: str, train: tuple[Floats, Places], test: tuple[Floats, Places]) -> Federation:
    """The labels of the first half are the private group."""
    width = train[0].shape[2]
    none, zeros = np.zeros(width, dtype=np.bool_), np.zeros(width, dtype=np.float32)
    return Federation(name, *train, *test, groups_of(test[1], 10, 2) == 0, 10, none, zeros)


def _of_table(name: str, data: datasets.Dataset, private: tuple[str, ...]) -> Federation:
    """100 clients of 390 rows, and 10,000 to measure on."""
    encoding = Encoding.around_defaults(data.schema)
    x, y = encoding.columns(data.schema.clamp(data.rows)), data.labels.astype(np.intp)
    order, rows = np.random.default_rng(2026).permutation(len(x)), 390
    train = order[: CLIENTS * rows].reshape(CLIENTS, rows)
    test = order[CLIENTS * rows :][:10_000]
    columns = np.isin(encoding.feature, places_of(data.schema, private))
    blank = encoding.columns(data.schema.null_row[np.newaxis])[0].astype(np.float32)
    married = x[test][:, data.schema.column_names.index(MARRIED[name])] > 0
    return Federation(name, x[train], y[train], x[test], y[test], married, 2, columns, blank)


def places_of(schema: Schema, names: tuple[str, ...]) -> list[int]:
    return [schema.feature_names.index(name) for name in names]


def _digits() -> Federation:
    pictures, y = digit_pictures()
    x = filtered(pictures)
    train = np.arange(1400).reshape(20, 70)
    return _by_labels(DIGITS, (x[train], y[train]), (x[1400:], y[1400:]))


def digit_pictures() -> tuple[NDArray[np.uint8], Places]:
    """Of scikit-learn, three times as large, in a fixed random order."""
    data = loaders.scikit_learn("digits")
    order = np.random.default_rng(2026).permutation(len(data.rows))
    large = np.kron(data.rows[order].reshape(-1, 8, 8) * 15.9, np.ones((3, 3)))
    return large.astype(np.uint8), data.labels[order].astype(np.intp)
