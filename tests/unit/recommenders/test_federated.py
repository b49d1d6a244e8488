"""Moments of several shops by a secure sum: the same model as one shop of all users."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from tests.unit.federation.secret_toys import Falling
from tests.unit.federation.secure_aggregation.parties import identities, signer
from tests.unit.recommenders.examples import DELTA, USER, budget, shop
from voile.core.errors import InvalidInput, Refused
from voile.core.guarantee import Adversary
from voile.federation import Rounds, SecureSum, Threads
from voile.federation.secure_aggregation import ActiveServer, AttemptsInMemory
from voile.privacy.mechanisms import GaussianMechanism
from voile.recommenders import (
    Interactions,
    ItemMoments,
    MomentsBudget,
    PrivateGram,
    PrivatePopularity,
    autoencoder_from,
    joint_guarantee,
)
from voile.recommenders.federated import (
    SecretUpload,
    ShopStatement,
    folded_gram,
    gram_upload,
    joined_moments,
    joined_popularity,
    popularity_upload,
)
from voile.recommenders.moments import gram, grid_bits, popularity, unfolded, unit_rows

NAMES = ("east", "north", "south", "west")
ALL = shop(1200)


def parts() -> dict[str, Interactions]:
    """Shops of different sizes; every user is in one of them."""
    of = np.random.default_rng(3).choice(4, len(ALL), p=[0.1, 0.2, 0.3, 0.4])
    return {name: ALL.of_users(of == place) for place, name in enumerate(NAMES)}


def sums() -> SecureSum:
    return SecureSum(ActiveServer(), identities(NAMES), dict.fromkeys(NAMES, 1))


def total(upload: SecretUpload, vectors: dict[str, Any], falls: str | None = None) -> Any:
    nodes: list[Any] = [
        upload.node(name, vector, signer(name), AttemptsInMemory())
        for name, vector in vectors.items()
    ]
    nodes = [
        Falling(node, 2) if name == falls else node
        for name, node in zip(vectors, nodes, strict=True)
    ]
    rounds = Rounds(
        Threads(nodes), upload.protocol.sizes, agreement=upload.agreement, sign=signer("server")
    )
    return upload.total(rounds)


def federated(spent: MomentsBudget) -> ItemMoments:
    shops = parts()
    given: dict[str, Any] = {"protected": USER, "delta": DELTA}
    first = {name: PrivatePopularity(each, spent, **given) for name, each in shops.items()}
    stated = {
        name: ShopStatement(
            guarantee=joint_guarantee(each.budget, protected=each.protected, delta=DELTA),
            charges=("users#1", "users#2"),
        )
        for name, each in first.items()
    }
    upload = popularity_upload(sums(), spent, agreement="moments 1")
    whole = total(upload, {name: each.draw().values for name, each in first.items()})
    chosen = joined_popularity(whole, spent, stated)
    second = {
        name: PrivateGram(each, spent, **given, chosen=chosen) for name, each in shops.items()
    }
    upload = gram_upload(sums(), spent, agreement="moments 2")
    matrices = total(upload, {name: folded_gram(each.draw()) for name, each in second.items()})
    return joined_moments(ALL.catalogue, spent, chosen, matrices, stated)


def plain(_: object, values: Any, __: object = None) -> Any:
    return values


def test_sums_are_those_of_all_users_together(monkeypatch: pytest.MonkeyPatch) -> None:
    spent = budget(ALL, 5.0, parties=4)
    monkeypatch.setattr(GaussianMechanism, "randomise", plain)
    made = federated(spent)
    exact = popularity(unit_rows(ALL.matrix, bits=grid_bits(len(ALL))))
    assert np.allclose(made.popularity.values, exact, rtol=0, atol=1e-3)
    rows = unit_rows(ALL.matrix[:, made.head], bits=grid_bits(len(ALL)))
    assert made.gram is not None
    assert np.allclose(made.gram.matrix, unfolded(gram(rows), spent.head), rtol=0, atol=1e-3)
    # ... and so is the model, from whichever sums it was made.
    alone = budget(ALL, 5.0)
    assert made.budget.signal == pytest.approx(alone.signal / 2)
    assert autoencoder_from(made).weights.shape == (24, 24)


def test_noise_is_that_of_all_shops_and_the_promise_that_of_one() -> None:
    spent = budget(ALL, 5.0, parties=4)
    made = federated(spent)
    rows = unit_rows(ALL.matrix[:, made.head], bits=grid_bits(len(ALL)))
    assert made.gram is not None
    noise = made.gram.matrix - unfolded(gram(rows), spent.head)
    above = noise[np.triu_indices(24, 1)]
    assert spent.gram_deviation == pytest.approx(2 * spent.gram_noise.sigma)
    # 276 values: six standard errors of a standard deviation.
    assert above.std() == pytest.approx(spent.gram_deviation, rel=6 / math.sqrt(2 * 276))
    promise = made.guarantee
    assert 4.999 < promise.epsilon <= 5.0
    assert Adversary.SERVER_SEEING_UPDATES in promise.against
    assert "4 shops in parallel" in promise.composition
    assert any("no user is in two" in each for each in promise.assumptions)
    assert not any("not against the server" in each for each in promise.assumptions)


def test_a_shop_that_falls_out_leaves_no_moments() -> None:
    spent = budget(ALL, 5.0, parties=4)
    upload = popularity_upload(sums(), spent, agreement="moments 1")
    with pytest.raises(Refused, match=r"without \['north'\]: agree anew"):
        total(upload, {name: np.ones(24) for name in NAMES}, falls="north")


def test_terms_that_do_not_fit_are_refused() -> None:
    spent = budget(ALL, 5.0, parties=4)
    upload = popularity_upload(sums(), spent, agreement="moments 1")
    with pytest.raises(InvalidInput, match="a vector of 24 values"):
        upload.node("east", np.ones(5), signer("east"), AttemptsInMemory())
    heavy = SecureSum(
        ActiveServer(), identities(NAMES), dict(zip(NAMES, (1, 2, 3, 4), strict=True))
    )
    with pytest.raises(InvalidInput, match="declares the size 1"):
        popularity_upload(heavy, spent, agreement="moments 1")
    chosen = joined_popularity(np.ones(24), spent, {})
    with pytest.raises(InvalidInput, match="for 4 shops, found 0"):
        joined_moments(ALL.catalogue, spent, chosen, np.zeros(300), {})
    with pytest.raises(InvalidInput, match="the budget is for 1200 users"):
        PrivatePopularity(shop(1201), spent, protected=USER, delta=DELTA)


def test_with_one_user_a_shop_almost_nothing_is_left() -> None:
    """Local differential privacy: noise in the sum is √users times as large."""
    local = budget(ALL, 5.0, parties=len(ALL))
    assert local.signal == pytest.approx(budget(ALL, 5.0).signal / math.sqrt(len(ALL)))
    assert local.popularity_only
