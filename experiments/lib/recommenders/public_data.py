"""Public collections of ratings, as a catalogue and interactions (`VOILE_DATA`).

The catalogue is the item file, also where nobody rated an item. "Also viewed" lists are left out:
they come from other people's behaviour.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

import numpy as np

from experiments.lib.datasets import loaders
from experiments.lib.datasets.loaders import Ratings
from voile.core.identifiers import canonical_name
from voile.core.schema import RawColumn
from voile.recommenders.shop import (
    ITEM,
    RATING,
    TIME,
    USER,
    Catalogue,
    Interactions,
    Labels,
    interactions_of,
    split_labels,
)

GENRE: Final = "genre"
PERIOD: Final = "period"
_FIRST_YEARS: Final = (1930, 1940, 1950, 1960, 1970, 1975, 1980, 1985, 1990, 1993, 1995, 1997, 1999)
_NO_GENRE_COLUMNS: Final = {"item_id", "title", "release_date", "video_release_date", "imdb_url"}


def movielens_100k() -> Interactions:
    """943 users, 1,682 films with genres and the period of their release."""
    ratings = loaders.movielens_100k()
    films = ratings.tables["items"]
    flags = [name for name in films if name not in _NO_GENRE_COLUMNS]
    rows = np.column_stack([films[name] for name in flags])
    genres = tuple(
        tuple(flag for flag, on in zip(flags, row, strict=True) if on) for row in rows.tolist()
    )
    kinds = {GENRE: genres, PERIOD: _periods(films["release_date"], r"(\d{4})\s*$")}
    items = _items(films["item_id"])
    titles = tuple(map(str, films["title"].tolist()))
    return _interactions(ratings, Catalogue(ratings.name, items, kinds, titles))


def movielens_1m() -> Interactions:
    """6,040 users, 3,883 films; 177 of them were rated by nobody."""
    ratings = loaders.movielens_1m()
    films = ratings.tables["movies"]
    genres = tuple(split_labels(cell) for cell in films["genres"].tolist())
    kinds = {GENRE: genres, PERIOD: _periods(films["title"], r"\((\d{4})\)\s*$")}
    titles = tuple(map(str, films["title"].tolist()))
    return _interactions(ratings, Catalogue(ratings.name, _items(films["movie_id"]), kinds, titles))


def amazon() -> Interactions:
    """6,170 users, 2,753 products with category and brand."""
    ratings = loaders.amazon()
    return _interactions(ratings, _of_pairs(ratings, "category", "brand", of="item"))


def yelp() -> Interactions:
    """16,239 users, 14,284 businesses with category and city."""
    ratings = loaders.yelp()
    return _interactions(ratings, _of_pairs(ratings, "category", "city", of="business"))


def _of_pairs(ratings: Ratings, *kinds: str, of: str) -> Catalogue:
    """From tables of pairs, one for each kind: items are those that any of them names."""
    pairs = {kind: _pairs(ratings.tables[f"{of}_{kind}"], of, kind) for kind in kinds}
    items = sorted({item for each in pairs.values() for item, _ in each}, key=int)
    labels = {kind: joined_labels(items, each) for kind, each in pairs.items()}
    return Catalogue(ratings.name, tuple(items), labels)


def joined_labels(items: Iterable[str], pairs: Iterable[tuple[str, str]]) -> Labels:
    """Labels of each item from a table of (item, label)."""
    found: dict[str, list[str]] = {item: [] for item in items}
    for item, label in pairs:
        if item in found and label not in found[item]:
            found[item].append(label)
    return tuple(tuple(labels) for labels in found.values())


def _pairs(table: Mapping[str, RawColumn], of: str, kind: str) -> list[tuple[str, str]]:
    left, right = table[f"{of}_id"].tolist(), table[f"{kind}_id"].tolist()
    return [(str(item), f"{kind} {label}") for item, label in zip(left, right, strict=True)]


def _periods(column: RawColumn, pattern: str) -> tuple[tuple[str, ...], ...]:
    return tuple(_period(re.search(pattern, str(cell))) for cell in column.tolist())


def _period(found: re.Match[str] | None) -> tuple[str, ...]:
    if found is None:
        return ()
    first = [year for year in _FIRST_YEARS if year <= int(found[1])]
    return (f"from {first[-1]}" if first else f"before {_FIRST_YEARS[0]}",)


def _items(column: RawColumn) -> tuple[str, ...]:
    return tuple(canonical_name(cell) or "" for cell in column.tolist())


def _interactions(ratings: Ratings, catalogue: Catalogue) -> Interactions:
    user, item = list(ratings.ratings)[:2]
    columns = {USER: ratings.ratings[user], ITEM: ratings.ratings[item]}
    columns |= {
        ours: ratings.ratings[theirs]
        for ours, theirs in ((RATING, "rating"), (TIME, "timestamp"))
        if theirs in ratings.ratings
    }
    return interactions_of(columns, catalogue)
