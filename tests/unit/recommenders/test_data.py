"""Catalogue, interactions and splits: what is public raises, what is protected never does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from experiments.lib.recommenders.measuring import per_user_holdout
from experiments.lib.recommenders.public_data import joined_labels
from experiments.lib.recommenders.splits import leave_last_out, newcomers
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.recommenders.examples import catalogue, shop
from voile.core.errors import InvalidInput
from voile.datasets.tables import protected_csv_columns
from voile.recommenders import (
    Catalogue,
    Interactions,
    catalogue_of,
    interactions_of,
    read_catalogue,
    read_interactions,
)


def read(text: str, tmp_path: Path, items: int = 4) -> Interactions:
    path = tmp_path / "lines.csv"
    path.write_bytes(text.encode())
    return read_interactions(path, catalogue(items))


def pairs(found: Interactions) -> set[tuple[str, str]]:
    items = found.catalogue.items
    return {
        (found.users[u], items[i])
        for u, i in zip(found.user.tolist(), found.item.tolist(), strict=True)
    }


# --- catalogue ------------------------------------------------------------------------------------


def test_a_catalogue_is_read_from_the_item_file(tmp_path: Path) -> None:
    path = tmp_path / "items.csv"
    path.write_text("item,title,genre\n1,Alien,Horror|Sci-Fi\n2,Amour,Drama\n3,Untold,\n")
    found = read_catalogue(path, name="films")
    assert found.items == ("1", "2", "3")
    assert found.labels("genre") == ("Drama", "Horror", "Sci-Fi", "no genre")
    expected = [[0, 0.5, 0.5, 0], [1, 0, 0, 0], [0, 0, 0, 1]]
    assert found.shares("genre").tolist() == expected
    assert found.features.tolist() == [[1, 0, 1, 1], [1, 1, 0, 0], [1, 0, 0, 0]]
    with pytest.raises(InvalidInput, match="knows no 'brand'"):
        found.shares("brand")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("item,genre\n1,a\n1.0,b\n", "listed 2 times"),
        ("film\n1\n2\n", "expected a column 'item'"),
        ("item\n1\n\n", "two items"),
        ("item,genre\n1,a\n,b\n", "row 2 has no item"),
    ],
)
def test_what_is_wrong_with_a_public_catalogue_is_said(
    text: str, said: str, tmp_path: Path
) -> None:
    path = tmp_path / "items.csv"
    path.write_text(text)
    with pytest.raises(InvalidInput, match=said):
        read_catalogue(path)


def test_equal_titles_get_different_names() -> None:
    table = {"item": np.array([1, 2, 3]), "title": np.array(["Ran", "Ran", "Ikiru"])}
    assert catalogue_of(table, name="films").names == ("Ran [1]", "Ran [2]", "Ikiru")


def test_labels_come_from_pairs_once() -> None:
    assert joined_labels(["1", "2"], [("1", "a"), ("1", "a"), ("3", "b"), ("1", "c")]) == (
        ("a", "c"),
        (),
    )


# --- interactions ---------------------------------------------------------------------------------


def test_the_same_pair_twice_is_one_interaction_and_the_last_line_counts(tmp_path: Path) -> None:
    found = read("user,item,rating\na,1,2\na,2,3\na,1,5\n", tmp_path)
    assert pairs(found) == {("a", "1"), ("a", "2")}
    assert found.rating.tolist() == [5.0, 3.0]


def test_two_spellings_of_a_user_are_one_user(tmp_path: Path) -> None:
    found = read("user,item\n7,1\n7.0,2\n +7 ,3\n7,1.0\n", tmp_path)
    assert found.users == ("7",)
    assert pairs(found) == {("7", "1"), ("7", "2"), ("7", "3")}


def test_full_width_spellings_are_one_user_and_two_items() -> None:
    """Budgets hang on users; items keep the spelling that stored catalogues have."""
    items = Catalogue("shop", ("7", "\uff17"), {})
    columns = {
        "user": np.array(["7", "\uff17"], dtype=object),
        "item": np.array(["7", "\uff17"], dtype=object),
    }
    found = interactions_of(columns, items)
    assert found.users == ("7",)
    assert found.history("\uff17").tolist() == [0, 1]


def test_unknown_items_and_lines_without_a_user_add_nothing(tmp_path: Path) -> None:
    found = read("user,item\na,1\na,99\n,2\nb,nonsense\n\n", tmp_path)
    assert pairs(found) == {("a", "1")}
    assert found.users == ("a", "b")  # who withdraws stays, as the null record


DAMAGED = {
    "too few cells": "b",
    "too many cells": "b,1,5,7",
    "open quote": 'b,"1,5',
    "text after a quote": 'b,"1"2,5',
    "quoted name": '"b",1',
    "very long": 'b,"' + "x" * 200_000 + '",5',
}


@pytest.mark.parametrize("line", DAMAGED.values(), ids=list(DAMAGED))
def test_a_damaged_line_is_an_ignored_interaction_of_a_user_who_counts(
    line: str, tmp_path: Path
) -> None:
    found = read(f"user,item,rating\na,1,5\n{line}\na,2,5\n", tmp_path)
    assert found.users == ("a", "b")
    assert pairs(found) == {("a", "1"), ("a", "2")}


@pytest.mark.parametrize("line", ['"b,1,5', "", '"b"b,1', ',"b'])
def test_a_damaged_line_whose_user_cannot_be_read_is_nobodys(line: str, tmp_path: Path) -> None:
    found = read(f"user,item,rating\na,1,5\n{line}\n", tmp_path)
    assert (found.users, pairs(found)) == (("a",), {("a", "1")})


@pytest.mark.parametrize("line", ["1,2,a", '"1,2"x,a', "1, left,b"])
def test_the_user_comes_first_in_csv(line: str, tmp_path: Path) -> None:
    """Behind the item, a damaged line loses its user or invents one, and users are counted."""
    with pytest.raises(InvalidInput, match=r"column 'user' must come first.*found 'item'"):
        read(f"item,user\n1,a\n{line}\n", tmp_path)


def test_other_columns_are_refused_in_csv(tmp_path: Path) -> None:
    """A line break in somebody's review would begin the line of another user."""
    path = tmp_path / "reviews.csv"
    path.write_text('user,item,review\n1,a,"x\n2,b,x\n"\n')
    with pytest.raises(InvalidInput, match="alone, found 'review'"):
        read_interactions(path, catalogue(4))


def test_in_parquet_columns_have_any_order(tmp_path: Path) -> None:
    path = tmp_path / "lines.parquet"
    pq.write_table(pa.table({"item": ["1", "1, left"], "user": ["a", "b"]}), path)
    found = read_interactions(path, catalogue(4))
    assert (found.users, pairs(found)) == (("a", "b"), {("a", "1")})


@settings(max_examples=150, deadline=None)
@given(st.text(alphabet='b,"1 \r\u00e9', max_size=12), st.booleans())
def test_whatever_a_line_holds_no_neighbour_is_read_differently(text: str, bad: bool) -> None:
    """Nobody is lost who can be named, and others stay as they are."""
    line = f"b,{text}".encode() + b"\xff" * bad
    table = protected_csv_columns(b"user,item\na,1\n" + line + b"\na,2\n", "lines", naming="user")
    found = interactions_of(table, catalogue(4))
    assert found.users == ("a", "b")
    assert {pair for pair in pairs(found) if pair[0] == "a"} == {("a", "1"), ("a", "2")}


@pytest.mark.parametrize("rating", ["nan", "inf", "-inf", "", "five", "1e999"])
def test_a_rating_that_is_no_number_is_none(rating: str, tmp_path: Path) -> None:
    found = read(f"user,item,rating\na,1,{rating}\n", tmp_path)
    assert pairs(found) == {("a", "1")}
    assert np.isnan(found.rating).all()


def test_an_empty_file_has_no_users(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="one user at least"):
        read("user,item\n", tmp_path)
    with pytest.raises(InvalidInput, match="expected the columns user,item"):
        read("person,item\na,1\n", tmp_path)


ODD = st.one_of(
    st.text(max_size=5),
    st.integers(-3, 5),
    st.floats(),
    st.none(),
    st.booleans(),
    st.binary(max_size=3),
    st.lists(st.integers(), max_size=2),
)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(ODD, ODD, ODD, ODD), max_size=12))
def test_no_line_of_a_protected_table_raises(lines: list[tuple[Any, ...]]) -> None:
    columns: dict[str, Any] = {}
    for place, name in enumerate(("user", "item", "rating", "time")):
        cells = np.empty(len(lines) + 1, dtype=object)
        for row, line in enumerate(lines):
            cells[row] = line[place]
        cells[-1] = "somebody" if name == "user" else 1
        columns[name] = cells
    found = interactions_of(columns, catalogue(4))
    assert found.matrix.shape == (len(found), 4)
    assert not np.isinf(found.rating).any()
    assert "1" in {item for user, item in pairs(found) if user == "somebody"}


def test_a_history_is_found_under_any_spelling() -> None:
    found = shop(5)
    assert np.array_equal(found.history("3"), found.history(3))
    assert np.array_equal(found.history(3.0), found.history_at(found.users.index("3")))  # type: ignore[arg-type]
    assert found.history("stranger").size == 0


# --- splits ---------------------------------------------------------------------------------------


def test_a_holdout_takes_its_share_of_each_user() -> None:
    found = shop()
    split = per_user_holdout(found, share=0.2, seed=1)
    whole, held = (np.bincount(each.user, minlength=300) for each in (found, split.held_out))
    assert np.array_equal(held, np.round(0.2 * whole))
    assert (split.given.matrix + split.held_out.matrix != found.matrix).nnz == 0
    again, other = (per_user_holdout(found, share=0.2, seed=seed) for seed in (1, 2))
    assert np.array_equal(again.held_out.item, split.held_out.item)
    assert not np.array_equal(other.held_out.item, split.held_out.item)


def test_the_last_interaction_is_left_out() -> None:
    columns = {
        "user": np.array(["a", "a", "a", "b", "c", "c"]),
        "item": np.array([1, 2, 3, 1, 2, 3]),
        "time": np.array([1.0, 9.0, np.nan, 5.0, np.nan, 0.0]),
    }
    split = leave_last_out(interactions_of(columns, catalogue(4)))
    assert pairs(split.held_out) == {("a", "2"), ("c", "3")}
    assert pairs(split.given) == {("a", "1"), ("a", "3"), ("b", "1"), ("c", "2")}


def test_newcomers_are_nobody_a_model_knows() -> None:
    found = shop()
    parts = newcomers(found, share=0.25, held_out=0.3, seed=4)
    assert set(parts.known.users) & set(parts.newcomers.given.users) == set()
    assert len(parts.known) + len(parts.newcomers.given) == 300
    assert parts.newcomers.given.users == parts.newcomers.held_out.users
    name = parts.known.users[0]
    assert np.array_equal(parts.known.history(name), found.history(name))


@pytest.mark.parametrize("share", [0.0, 1.0, -1.0])
def test_a_share_is_a_share(share: float) -> None:
    with pytest.raises(InvalidInput, match="share"):
        per_user_holdout(shop(5), share=share, seed=1)
    with pytest.raises(InvalidInput, match="share"):
        newcomers(shop(5), share=share, held_out=0.5, seed=1)
