"""Moments of several shops by a secure sum: the same model as one shop of all users."""

from __future__ import annotations

import math
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.unit.federation.secret_toys import Falling
from tests.unit.federation.secure_aggregation.parties import identities, signer
from tests.unit.recommenders.examples import DELTA, USER, budget, shop
from voile.core.errors import InvalidInput, Refused
from voile.core.guarantee import Adversary
from voile.federation import (
    Client,
    CountingGuard,
    HistoryRow,
    Node,
    Outcome,
    Rounds,
    SecureMember,
    SecureSum,
    Threads,
    run_pipeline,
)
from voile.federation.secure_aggregation import ActiveServer, AttemptsInMemory
from voile.privacy.mechanisms import GaussianMechanism
from voile.recommenders import (
    Interactions,
    ItemMoments,
    MomentsBudget,
    PrivatePopularity,
    autoencoder_from,
)
from voile.recommenders.federated import MomentsPlan, arrays_of_rounds
from voile.recommenders.moments import gram, grid_bits, popularity, unfolded, unit_rows

NAMES = ("east", "north", "south", "west")
ALL = shop(1200)


def parts() -> dict[str, Interactions]:
    """Shops of different sizes; every user is in one of them."""
    of = np.random.default_rng(3).choice(4, len(ALL), p=[0.1, 0.2, 0.3, 0.4])
    return {name: ALL.of_users(of == place) for place, name in enumerate(NAMES)}


def plan(spent: MomentsBudget) -> MomentsPlan:
    sizes = {name: len(part) for name, part in parts().items()}
    secure = SecureSum(ActiveServer(), identities(NAMES), sizes)
    return MomentsPlan(ALL.catalogue, sizes, USER, spent, DELTA, secure)


def federated(spent: MomentsBudget, falls: str | None = None) -> ItemMoments:
    """By a secure sum; one shop may fall out of the second round."""
    agreed, nodes = plan(spent), list[Any]()
    stages = {stage.name: stage for stage in agreed.stages}
    for name, part in parts().items():
        client = Client(name, len(part), part, agreed.tasks, CountingGuard(1), agreement="moments")
        member = SecureMember(stages, signer(name), AttemptsInMemory())
        node: Any = Node(client, secure=member)
        nodes.append(Falling(node, 2) if name == falls else node)
    rounds = Rounds(Threads(nodes), agreed.sizes, agreement="moments", sign=signer("server"))
    return agreed.moments(run_pipeline(agreed, rounds))


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
    with pytest.raises(Refused, match=r"is without \['north'\]: agree anew"):
        federated(budget(ALL, 5.0, parties=4), falls="north")


def test_terms_that_do_not_fit_are_refused() -> None:
    spent = budget(ALL, 5.0, parties=4)
    with pytest.raises(InvalidInput, match="1200 users of 3 shops, found 1200 of 4"):
        plan(replace(spent, parties=3))
    with pytest.raises(InvalidInput, match="the budget is for 1200 users"):
        PrivatePopularity(shop(1201), spent, protected=USER, delta=DELTA)


def test_arrays_of_the_rounds_come_back_to_the_bit() -> None:
    """From what is kept of the sums: a server's log has digests of the means."""
    spent = budget(ALL, 5.0, parties=4)
    draw, agreed = np.random.default_rng(0), plan(spent)
    means = {
        name: {"moments": draw.normal(0, 50, task.shapes["moments"]).astype(np.float32)}
        for name, task in agreed.tasks.items()
    }
    rows = tuple(HistoryRow("s", 1, name, Outcome.ANSWERED, "", 0.0) for name in NAMES)
    results: Any = {
        name: SimpleNamespace(arrays=arrays, rows=rows) for name, arrays in means.items()
    }
    again = arrays_of_rounds(agreed.moments(results))
    for name, arrays in means.items():
        np.testing.assert_array_equal(again[name]["moments"], arrays["moments"])


def test_with_one_user_a_shop_almost_nothing_is_left() -> None:
    """Local differential privacy: noise in the sum is √users times as large."""
    local = budget(ALL, 5.0, parties=len(ALL))
    assert local.signal == pytest.approx(budget(ALL, 5.0).signal / math.sqrt(len(ALL)))
    assert local.popularity_only
