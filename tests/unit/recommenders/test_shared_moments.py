"""Moments of shops that share the noise: sums of whole numbers, nearly as noisy as one shop's."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.unit.federation.secret_toys import Falling
from tests.unit.federation.secure_aggregation.parties import identities, signer
from tests.unit.recommenders.examples import DELTA, USER, catalogue, shop
from voile.assess.user_trials import CanaryHistory, shop_of
from voile.core.errors import InvalidInput, Refused
from voile.core.guarantee import Adversary, Relation
from voile.core.randomness import Seeded, StreamCipher
from voile.federation import (
    Client,
    CountingGuard,
    Instruction,
    Node,
    Rounds,
    SecureMember,
    SecureSum,
    Threads,
    run_pipeline,
)
from voile.federation.secure_aggregation import ActiveServer, AttemptsInMemory
from voile.privacy.accounting.accountants import tightest_epsilon
from voile.privacy.events import Composed
from voile.privacy.mechanisms.shares import LEAST_VARIANCE, SharedGaussian
from voile.recommenders import Interactions, ItemMoments, MomentsBudget
from voile.recommenders.federated import MomentsPlan, arrays_of_rounds
from voile.recommenders.moments import gram, grid_bits, popularity, unfolded, unit_rows
from voile.recommenders.shared_moments import NUMBERS, SharePopularity, gram_steps, popularity_steps

NAMES = ("east", "mid", "north", "south", "west")
ALL = shop(1200)
EPSILON = 5.0


def budget(shares: int = 3, epsilon: float = EPSILON, **changes: Any) -> MomentsBudget:
    given: dict[str, Any] = {
        "users": len(ALL),
        "items": len(ALL.catalogue),
        "relation": Relation.BLANK_ONE,
        "epsilon": epsilon,
        "delta": DELTA,
    }
    spent = MomentsBudget.concentrated(**(given | changes))
    return replace(spent, parties=len(NAMES), shares=shares)


def parts() -> dict[str, Interactions]:
    """Shops of different sizes; every user is in one of them."""
    of = np.random.default_rng(3).choice(5, len(ALL), p=[0.1, 0.1, 0.2, 0.2, 0.4])
    return {name: ALL.of_users(of == place) for place, name in enumerate(NAMES)}


def plan(spent: MomentsBudget | None = None) -> MomentsPlan:
    sizes = {name: len(part) for name, part in parts().items()}
    secure = SecureSum(ActiveServer(colluders=1, threshold=4), identities(NAMES), sizes)
    return MomentsPlan(ALL.catalogue, sizes, USER, spent or budget(), DELTA, secure)


def results(agreed: MomentsPlan, falls: Mapping[str, int] | None = None) -> Any:
    """Of both rounds; some shops may fall out of one."""
    nodes, when = list[Any](), falls or {}
    stages = {stage.name: stage for stage in agreed.stages}
    for name, part in parts().items():
        client = Client(name, len(part), part, agreed.tasks, CountingGuard(1), agreement="moments")
        node: Any = Node(client, secure=SecureMember(stages, signer(name), AttemptsInMemory()))
        nodes.append(Falling(node, when[name]) if name in when else node)
    rounds = Rounds(
        Threads(nodes), agreed.sizes, agreement="moments", source=Seeded(1), sign=signer("server")
    )
    return run_pipeline(agreed, rounds)


@pytest.fixture(scope="module")
def agreed() -> MomentsPlan:
    return plan()


@pytest.fixture(scope="module")
def found(agreed: MomentsPlan) -> Any:
    return results(agreed)


@pytest.fixture(scope="module")
def made(agreed: MomentsPlan, found: Any) -> ItemMoments:
    moments = agreed.moments(found)
    assert isinstance(moments, ItemMoments)
    return moments


def noise_on_gram(made: ItemMoments, interactions: Interactions = ALL) -> Any:
    """Above the diagonal, and on it."""
    bits = grid_bits(len(ALL))
    exact = unfolded(gram(unit_rows(interactions.matrix[:, made.head], bits=bits)), len(made.head))
    assert made.gram is not None
    off = made.gram.matrix - exact
    return off[np.triu_indices(len(off), 1)], np.diag(off)


def test_without_noise_sums_are_those_of_all_users(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SharedGaussian, "randomise", lambda _, blocks, __=None: tuple(blocks))
    agreed = plan()
    without = agreed.moments(results(agreed))
    exact = popularity(unit_rows(ALL.matrix, bits=agreed.budget.bits))
    np.testing.assert_array_equal(without.popularity.values, exact)
    above, diagonal = noise_on_gram(without)
    assert max(np.abs(above).max(), np.abs(diagonal).max()) < 1e-2  # of another grid


def test_noise_is_that_of_one_shop_but_for_shares_to_spare(made: ItemMoments) -> None:
    spent = made.budget
    expected = math.sqrt(5 / 3)
    assert spent.gram_deviation == pytest.approx(expected * spent.gram_noise.sigma)
    exact = popularity(unit_rows(ALL.matrix, bits=grid_bits(len(ALL))))
    off = (made.popularity.values - exact) / spent.popularity_noise.sigma
    above, diagonal = noise_on_gram(made)
    off_gram = np.concatenate([above, diagonal / math.sqrt(2)]) / spent.gram_noise.sigma
    together = np.concatenate([off, off_gram])
    assert together.std() == pytest.approx(expected, rel=6 / math.sqrt(2 * len(together)))


def test_error_is_at_most_a_tenth_above_that_of_a_trusted_server() -> None:
    """Over many draws of each: what all survivors' shares add up to, against one whole noise."""
    for survivors in (4, 5):
        noise = plan().tasks["popularity"].noise
        assert isinstance(noise, SharedGaussian)
        (sigma,), (shape,) = noise.sigmas, noise.shapes
        draws = [
            sum(noise.randomise([np.zeros(shape, dtype=np.int64)])[0] for _ in range(survivors))
            for _ in range(100)
        ]
        error = math.sqrt(np.mean(np.square(np.stack(draws).astype(float))))
        assert error <= 1.1 * math.sqrt(survivors / 3) * sigma
        assert error >= 0.9 * math.sqrt(survivors / 3) * sigma


def test_a_shop_without_users_sends_noise(agreed: MomentsPlan) -> None:
    nobody = ALL.of_users(np.zeros(len(ALL), dtype=bool))
    task = agreed.tasks["popularity"]
    told = Instruction("popularity", 1, agreed.start("popularity"), {}, "moments")
    fitted = task.fit(told, nobody, 100, StreamCipher())
    numbers = fitted.change[NUMBERS]
    share = agreed.budget.shared_noises[0].sigmas[0] / math.sqrt(3)
    assert numbers.std() == pytest.approx(share, rel=6 / math.sqrt(2 * len(numbers)))
    assert fitted.event == task.cost(1)


@pytest.mark.filterwarnings("ignore::voile.privacy.mechanisms.WeakPrivacyWarning")
def test_shares_are_wide_on_the_grid_and_sums_are_exact(agreed: MomentsPlan) -> None:
    for spent in (budget(), budget(epsilon=0.1), budget(epsilon=200.0), budget(shares=4)):
        for noise in spent.shared_noises:
            assert noise.factor == 1
            assert min(noise.sigmas) ** 2 / spent.shares >= LEAST_VARIANCE
    for stage in agreed.stages:
        assert len(NAMES) * stage.largest_change < 2**54
    with pytest.raises(InvalidInput, match="too small to be shared"):
        _ = budget(epsilon=1e15).shared_noises


def test_the_promise_is_paid_for_and_names_both_adversaries(agreed: MomentsPlan) -> None:
    promise = agreed.guarantee()
    assert 0.999 * EPSILON < promise.epsilon <= EPSILON
    assert tightest_epsilon(Composed(agreed.participation_events), DELTA) <= EPSILON
    assert promise.computational
    assert Adversary.SERVER_SEEING_SUMS in promise.against
    assert Adversary.SERVER_SEEING_UPDATES not in promise.against
    said = " ".join(promise.assumptions)
    assert "at least 3 honest parties add their share" in said
    assert "from a party's own share alone" in said
    assert "no user is in two of them" in said
    assert "against the server" not in said
    assert "in shares" in promise.mechanism
    weaker = float(said.split("epsilon = ")[1].split()[0])
    assert weaker > math.sqrt(3) * EPSILON * 0.9


def test_each_shop_is_charged_the_whole_event(agreed: MomentsPlan, found: Any) -> None:
    for stage, result in found.items():
        event = agreed.tasks[stage].cost(1)
        assert event == agreed.budget.events[[*agreed.tasks].index(stage)]
        assert {agreed.tasks[stage].cost(size) for size in agreed.sizes.values()} == {event}
        assert len({row.event for row in result.rows}) == 1


def test_a_shop_that_falls_out_is_missing_and_nothing_else(agreed: MomentsPlan) -> None:
    made = agreed.moments(results(agreed, {"north": 6}))
    rest = ALL.of_users(np.random.default_rng(3).choice(
        5, len(ALL), p=[0.1, 0.1, 0.2, 0.2, 0.4]) != NAMES.index("north"))  # fmt: skip
    above, _ = noise_on_gram(made, rest)
    expected = math.sqrt(4 / 3) * made.budget.gram_noise.sigma
    assert above.std() == pytest.approx(expected, rel=6 / math.sqrt(2 * len(above)))
    with pytest.raises(Refused, match="no client contributed to the stage 'Gram matrix'"):
        agreed.moments(results(agreed, {"north": 6, "east": 6}))


def test_numbers_of_the_rounds_come_back_to_the_bit(found: Any, made: ItemMoments) -> None:
    again = arrays_of_rounds(made)
    assert set(again) == set(found)
    for stage, result in found.items():
        np.testing.assert_array_equal(again[stage][NUMBERS], result.arrays[NUMBERS])
        assert again[stage][NUMBERS].dtype == result.arrays[NUMBERS].dtype


@pytest.mark.parametrize("relation", [Relation.BLANK_ONE, Relation.REPLACE_ONE])
def test_no_user_moves_the_whole_numbers_by_more_than_the_sensitivity(relation: Relation) -> None:
    """A search for counter-examples, with histories at the edges."""
    spent = budget(relation=relation)
    draw, items = np.random.default_rng(5), len(ALL.catalogue)
    kinds = [[0], list(range(items)), [1, 2], list(range(0, items, 2))]
    sizes = draw.integers(1, items, 40)
    kinds += [draw.choice(items, size, replace=False).tolist() for size in sizes]
    people = [user_of(each) for each in kinds]
    nothing = user_of([])
    head = np.arange(spent.head)
    first, second = spent.shared_noises
    for place, one in enumerate(people):
        others = people if relation is Relation.REPLACE_ONE else [nothing]
        for other in others[: place or 1]:
            moved = steps_apart(popularity_steps(one, spent), popularity_steps(other, spent), first)
            assert moved <= first.sensitivity.value
            apart = gram_steps(one, spent, head), gram_steps(other, spent, head)
            assert steps_apart(*apart, second) <= second.sensitivity.value


def user_of(items: list[int]) -> Interactions:
    return shop_of(catalogue(), 1, CanaryHistory(tuple(items)), 1)


def steps_apart(one: Any, other: Any, noise: SharedGaussian) -> float:
    """In deviations of the noise of all shares."""
    blocks = zip(one, other, noise.sigmas, strict=True)
    return math.sqrt(sum(float((((a - b) / sigma) ** 2).sum()) for a, b, sigma in blocks))


def test_shares_need_a_secure_sum_and_no_more_than_there_are_shops() -> None:
    with pytest.raises(InvalidInput, match="6 shares of 5 parties"):
        budget(shares=6)
    alone = plan()
    with pytest.raises(Refused, match="in a secure sum only"):
        MomentsPlan(alone.catalogue, alone.sizes, USER, alone.budget, DELTA)


def test_more_users_than_declared_are_refused(agreed: MomentsPlan) -> None:
    task = agreed.tasks["popularity"]
    assert isinstance(task, SharePopularity)
    told = Instruction("popularity", 1, agreed.start("popularity"), {}, "moments")
    with pytest.raises(InvalidInput, match="10 users are declared"):
        task.fit(told, shop(20), 10, StreamCipher())
