"""Public collections: the catalogue is the item file, also where nobody rated an item."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from experiments.lib.datasets import loaders
from experiments.lib.datasets.loaders import Ratings
from experiments.lib.recommenders import public_data

from voile.core.schema import Feature, Label, Numbers, Schema

SCHEMA = Schema("ratings", (Feature("user_id", Numbers(0, 9)),), Label("rating", Numbers(1, 5)))


def ratings(item: str, tables: dict[str, Any], **more: Any) -> Ratings:
    columns = {
        "user_id": np.array([1, 1, 2]),
        item: np.array([1, 2, 2]),
        "rating": np.array([5, 3, 4]),
        **more,
    }
    return Ratings("a collection", SCHEMA, columns, tables)


def test_movielens_1m(monkeypatch: pytest.MonkeyPatch) -> None:
    films = {
        "movie_id": np.array([1, 2, 3]),
        "title": np.array(["Heat (1995)", "Ran (1985)", "Untold"]),
        "genres": np.array(["Action|Crime", "Drama", ""]),
    }
    monkeypatch.setattr(loaders, "movielens_1m", lambda: ratings("movie_id", {"movies": films}))
    found = public_data.movielens_1m()
    assert found.catalogue.items == ("1", "2", "3")  # nobody rated 3
    assert found.catalogue.kinds["genre"] == (("Action", "Crime"), ("Drama",), ())
    assert found.catalogue.kinds["period"] == (("from 1995",), ("from 1985",), ())
    assert found.history(1).tolist() == [0, 1]
    assert np.isnan(found.time).all()


def test_movielens_100k(monkeypatch: pytest.MonkeyPatch) -> None:
    films = {
        "item_id": np.array([1, 2, 3]),
        "title": np.array(["Heat", "Metropolis", "Untold"]),
        "release_date": np.array(["01-Jan-1995", "10-Jan-1927", ""], dtype=object),
        "video_release_date": np.array([np.nan] * 3),
        "imdb_url": np.array(["", "", ""]),
        "Action": np.array([1, 0, 0]),
        "Sci-Fi": np.array([0, 1, 0]),
    }
    given = ratings("item_id", {"items": films}, timestamp=np.array([7, 8, 9]))
    monkeypatch.setattr(loaders, "movielens_100k", lambda: given)
    found = public_data.movielens_100k()
    assert found.catalogue.kinds["genre"] == (("Action",), ("Sci-Fi",), ())
    assert found.catalogue.kinds["period"] == (("from 1995",), ("before 1930",), ())
    assert found.time.tolist() == [7, 8, 9]


@pytest.mark.parametrize(
    ("name", "of", "second"), [("amazon", "item", "brand"), ("yelp", "business", "city")]
)
def test_tables_of_pairs(name: str, of: str, second: str, monkeypatch: pytest.MonkeyPatch) -> None:
    tables = {
        f"{of}_category": {f"{of}_id": np.array([1, 1, 3]), "category_id": np.array([7, 8, 7])},
        f"{of}_{second}": {f"{of}_id": np.array([1, 2]), f"{second}_id": np.array([4, 4])},
        "item_view": {f"{of}_id": np.array([99]), "also_viewed_id": np.array([1])},
    }
    monkeypatch.setattr(loaders, name, lambda: ratings(f"{of}_id", tables))
    found = getattr(public_data, name)()
    assert found.catalogue.items == ("1", "2", "3")  # and not 99, which only others' views name
    assert found.catalogue.kinds["category"] == (("category 7", "category 8"), (), ("category 7",))
    assert found.catalogue.kinds[second] == ((f"{second} 4",), (f"{second} 4",), ())
