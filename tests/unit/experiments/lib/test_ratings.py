"""The release of ratings."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from experiments.lib.recommenders.ratings import PrivateLiking
from tests.unit.recommenders.examples import DELTA, USER, budget, catalogue, shop

from voile.core.errors import InvalidInput, Refused
from voile.core.guarantee import Relation
from voile.privacy.mechanisms import GaussianMechanism
from voile.recommenders import Interactions, interactions_of
from voile.release import Release


def liking(interactions: Interactions, **changes: Any) -> PrivateLiking:
    given: dict[str, Any] = {
        "bounds": (1.0, 5.0),
        "protected": USER,
        "epsilon": 1.0,
        "delta": DELTA,
    }
    return PrivateLiking(interactions, **(given | changes))


def plain(_: object, values: Any, __: object = None) -> Any:
    return values


def test_one_user_moves_the_ratings_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(GaussianMechanism, "randomise", plain)
    columns = {
        "user": np.array(["a"] * 4 + ["b"] * 3),
        "item": np.array([0, 1, 2, 3, 0, 1, 2]),
        "rating": np.array([5.0, 1.0, 99.0, np.nan, 5.0, -7.0, np.inf]),
    }
    found = interactions_of(columns, catalogue(4))
    whole = liking(found).draw().values
    moves = [
        np.linalg.norm(whole - liking(found.where(found.user != user)).draw().values)
        for user in range(2)
    ]
    assert all(0.999 < move <= 1.0 for move in moves)
    assert whole[0] > 0 > whole[1]
    assert whole[3] == 0.0


def test_ratings_are_a_release_like_the_others() -> None:
    found = liking(shop())
    assert isinstance(found, Release)
    drawn = found.draw()
    assert np.array_equal(found.codec.unpack(found.codec.pack(drawn)).values, drawn.values)
    with pytest.raises(Refused, match="nobody was charged"):
        drawn.check_paid()
    with pytest.raises(InvalidInput, match="bounds"):
        liking(shop(), bounds=(5.0, 1.0))
    assert "ratings" in found.guarantees(1)[0].mechanism
    assert budget(shop()).relation is Relation.BLANK_ONE
