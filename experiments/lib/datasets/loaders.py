"""Loaders of public data sets from the folder that `VOILE_DATA` names."""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments.lib.datasets.catalogue import SOURCES, Source
from voile.core.errors import InvalidInput
from voile.core.optional import optional
from voile.core.schema import Categories, Feature, Label, Numbers, RawColumn, Schema
from voile.datasets.clinic import Dataset
from voile.datasets.tables import parquet_columns


def schema_of(name: str) -> Schema:
    """The public schema of a data set in a table, by the name of its loader."""
    resource = Path(__file__).parent / "schemas" / f"{name}.toml"
    if not resource.is_file():
        raise InvalidInput(f"there is no schema called {name!r}")
    return Schema.loads(resource.read_text(encoding="utf-8"))


def dutch_census() -> Dataset:
    """60,420 people of the Dutch census of 2001; `paper_client` is the split of FastSHAP++.

    Label 1 is a high-level occupation. The code of FastSHAP++ has it the other way round.
    """
    return _table("dutch_census", "dutch_census_2001.parquet", ("paper_client",))


def acs_income() -> Dataset:
    """772,769 people of the American Community Survey of 2018, at most 20,000 a `STATE`."""
    return _table("acs_income", "acs_income.parquet", ("STATE", "client"))


def acs_employment() -> Dataset:
    """1,020,000 people of the American Community Survey, 20,000 from each `STATE`."""
    return _table("acs_employment", "acs_employment.parquet", ("STATE", "client"))


def adult() -> Dataset:
    """48,842 people of the US census of 1994; income above 50,000 dollars."""
    return _table("adult", "adult.parquet", ())


def diabetes_130() -> Dataset:
    """101,766 hospital stays; the same `patient_nbr` may occur several times."""
    return _table(
        "diabetes_130", "diabetes_130_us_hospitals.parquet", ("patient_nbr", "medical_specialty")
    )


def _table(name: str, file: str, further: tuple[str, ...]) -> Dataset:
    table = parquet_columns(SOURCES[name].read(file), f"{name}/{file}")
    schema = schema_of(name)
    columns = {column: np.asarray(table[column]) for column in further}
    return Dataset(name, schema, schema.rows(table), schema.labels(table), columns)


@dataclass(frozen=True, eq=False)
class Ratings:
    """Who rated what, and what is known about users and items.

    Args:
        name: what it is called.
        schema: of the table `ratings`: user, item, and the rating as label.
        ratings: by column name; the first two are user and item.
        tables: further tables, by file name without suffix.
    """

    name: str
    schema: Schema
    ratings: Mapping[str, RawColumn]
    tables: Mapping[str, Mapping[str, RawColumn]]


def movielens_100k() -> Ratings:
    """100,000 ratings of 1,682 films by 943 users."""
    return _ratings("movielens_100k", "ratings")


def movielens_1m() -> Ratings:
    """1,000,209 ratings of 3,706 films by 6,040 users; most time stamps are missing."""
    return _ratings("movielens_1m", "ratings")


def amazon() -> Ratings:
    """195,791 ratings with brand and category of the products (not only electronics)."""
    return _ratings("amazon_hin", "ratings")


def amazon_electronics() -> Ratings:
    """The first 50,698 ratings of the Amazon electronics file; not a random sample."""
    return _ratings("amazon_electronics_head", "ratings_head_50k")


def yelp() -> Ratings:
    """198,397 ratings of businesses with category, city and friendships."""
    return _ratings("yelp_hin", "ratings")


def _ratings(name: str, main: str) -> Ratings:
    source = SOURCES[name]
    tables = {
        file.removesuffix(".parquet"): parquet_columns(source.read(file), f"{name}/{file}")
        for file, _ in source.files
    }
    ratings = tables.pop(main)
    user, item = list(ratings)[:2]
    schema = Schema(
        name,
        (_identity(user, ratings[user]), _identity(item, ratings[item])),
        Label("rating", Numbers(1, 5)),
    )
    return Ratings(name, schema, ratings, tables)


def _identity(name: str, column: RawColumn) -> Feature:
    """Numbered users and items; which numbers are in use is part of the published file."""
    if column.dtype.kind in "iu":
        lower, upper = int(column.min()), int(column.max())
        return Feature(name, Numbers(lower, max(upper, lower + 1), whole=True))
    return Feature(name, Categories(tuple(sorted({str(value) for value in column.tolist()}))))


@dataclass(frozen=True, eq=False)
class Images:
    """Pictures with their classes; every pixel is a feature of the schema.

    Args:
        name: what it is called.
        schema: pixels from 0 to 255 and the class.
        train, test: arrays by name: `x` (n, height, width[, 3]), `y` (n,), and what is known
            besides, such as `writer`.
    """

    name: str
    schema: Schema
    train: Mapping[str, NDArray[Any]]
    test: Mapping[str, NDArray[Any]]


def mnist_by_writer() -> Images:
    """70,000 handwritten digits with the writer of each; no writer is in both parts."""
    return _images("mnist_by_writer", tuple(str(digit) for digit in range(10)))


def cifar10() -> Images:
    """A balanced subset of CIFAR-10: 12,000 training and 2,000 test images."""
    return _images("cifar10", None)


def _images(name: str, classes: tuple[str, ...] | None) -> Images:
    source: Source = SOURCES[name]
    ((file, _),) = source.files
    with np.load(io.BytesIO(source.read(file)), allow_pickle=False) as archive:
        arrays = {key: archive[key] for key in archive.files}
    if classes is None:
        classes = tuple(str(value) for value in arrays["class_names"])
    parts = {
        part: {
            key.removesuffix(f"_{part}"): array
            for key, array in arrays.items()
            if key.endswith(f"_{part}")
        }
        for part in ("train", "test")
    }
    shape = parts["train"]["x"].shape[1:]
    pixels = tuple(
        Feature("pixel " + " ".join(map(str, place)), Numbers(0, 255, whole=True))
        for place in np.ndindex(*shape)
    )
    schema = Schema(name, pixels, Label("class", Categories(classes)))
    return Images(name, schema, parts["train"], parts["test"])


def scikit_learn(name: str) -> Dataset:
    """A data set that comes with scikit-learn: iris, wine, breast_cancer, diabetes or digits."""
    known = ("iris", "wine", "breast_cancer", "diabetes", "digits")
    if name not in known:
        raise InvalidInput(f"scikit-learn comes with {', '.join(known)}, found {name!r}")
    module = optional("sklearn.datasets", extra="explain")
    loaded = getattr(module, f"load_{name}")()
    schema = schema_of(name)
    table = dict(zip(schema.feature_names, loaded.data.T, strict=True))
    return Dataset(name, schema, schema.rows(table), np.asarray(loaded.target, dtype=np.float64))
