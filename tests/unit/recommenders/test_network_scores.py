"""Networks explained by items of a history: integrated gradients, LIME and Shapley values."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import numpy as np
import pytest

from tests.unit.recommenders.examples import shop
from voile.attribution import ExactShapley, IntegratedGradients, KernelShapley, Lime
from voile.core.errors import InvalidInput
from voile.recommenders import (
    Autoencoder,
    CollaborativeFilter,
    NetworkRecommender,
    score_by_items,
)
from voile.recommenders.explaining import scores_of
from voile.recommenders.networks import fresh_network

SHOP = shop(40)
HEAD = np.array([5, 3, 0, 8, 12, 1, 9, 22, 4, 7])
HISTORY = np.array([0, 4, 5, 9, 20])  # 20 is not in the head
ITEM = 8
ONES, ZEROS = np.ones((1, 5)), np.zeros((1, 5))
KINDS = [Autoencoder(6), CollaborativeFilter((8, 6))]
kinds = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)


def recommender(kind: Any, *, positive: bool = False) -> NetworkRecommender:
    network = fresh_network(kind, len(HEAD))
    values = np.random.default_rng(1).normal(size=network.values.shape)
    network.values[:] = np.abs(values) if positive else values
    return NetworkRecommender(SHOP.catalogue, np.ones(24), HEAD, kind, network)


@kinds
def test_the_score_of_the_whole_history_is_what_the_model_says(kind: Any) -> None:
    model = recommender(kind)
    score = score_by_items(model, HISTORY, ITEM)
    assert score.predict(ONES)[0, 0] == pytest.approx(scores_of(model, HISTORY)[ITEM], abs=1e-5)
    nothing = scores_of(model, HISTORY[:0])[ITEM]
    assert score.predict(ZEROS)[0, 0] == pytest.approx(nothing, abs=1e-5)
    with pytest.raises(InvalidInput, match="is not among the 10 items"):
        score_by_items(model, HISTORY, 20)


@kinds
def test_integrated_gradients_of_networks_are_those_of_captum(kind: Any) -> None:
    torch: Any = pytest.importorskip("torch")
    captum: Any = pytest.importorskip("captum.attr")
    model = recommender(kind)
    layers: list[Any] = []
    for each in model.network.layers:
        linear = torch.nn.Linear(*reversed(each.weight.shape)).double()
        linear.weight.data[:] = torch.from_numpy(each.weight)
        linear.bias.data[:] = torch.from_numpy(each.bias)
        layers += [linear, torch.nn.ReLU()]
    network, place = torch.nn.Sequential(*layers[:-1]), list(HEAD).index(ITEM)
    # The unit row by hand: four items of the history are in the head, each weighs a half.
    row = torch.from_numpy(np.isin(HEAD, HISTORY) / 2)[None]
    if isinstance(kind, CollaborativeFilter):
        item = torch.eye(len(HEAD)).double()[place][None]
        row, start, target = torch.cat([row, item], 1), torch.cat([0 * row, item], 1), 0
    else:
        start, target = 0 * row, place
    expected = captum.IntegratedGradients(network).attribute(row, start, target=target, n_steps=300)
    found = IntegratedGradients(score_by_items(model, HISTORY, ITEM), steps=300)(ONES)
    of_head = dict(zip(HEAD, expected[0].tolist(), strict=False))
    wanted = [of_head.get(item, 0.0) for item in HISTORY]
    assert np.allclose(found.values[0, :, 0], wanted, rtol=0, atol=1e-4)
    assert np.abs(wanted).max() > 0.1


@kinds
def test_shapley_values_of_networks_are_those_of_the_definition(kind: Any) -> None:
    score = score_by_items(recommender(kind), HISTORY, ITEM)
    orders = list(permutations(range(5)))
    wanted = np.zeros(5)
    for order in orders:
        rows = np.zeros((6, 5))
        for step, player in enumerate(order):
            rows[step + 1 :, player] = 1.0
        wanted[list(order)] += np.diff(score.predict(rows)[:, 0]) / len(orders)
    for method in (ExactShapley, KernelShapley):
        assert np.allclose(method(score, ZEROS)(ONES).values[0, :, 0], wanted, atol=1e-9)
    assert wanted[-1] == 0  # outside the head it changes nothing


@kinds
def test_where_a_network_is_linear_all_methods_say_what_it_is(kind: Any) -> None:
    """No rectifier ever closes on positive weights; for LIME that is its whole claim."""
    model = recommender(kind, positive=True)
    score = score_by_items(model, HISTORY, ITEM)
    wanted = score.predict(np.eye(5))[:, 0] - score.predict(ZEROS)[0, 0]
    assert wanted.max() > 0.1
    lime = Lime(score, ZEROS, samples=400, ridge=0.0)
    for explain in (lime, IntegratedGradients(score), ExactShapley(score, ZEROS)):
        assert np.allclose(explain(ONES).values[0, :, 0], wanted, atol=1e-9)


@kinds
def test_lime_fits_a_network_around_the_history(kind: Any) -> None:
    """The weighted least squares over all coalitions, from which LIME samples."""
    score = score_by_items(recommender(kind), HISTORY, ITEM)
    present = ((np.arange(32)[:, np.newaxis] >> np.arange(5)) % 2).astype(np.float64)
    weights = np.sqrt(np.exp(-(5 - present.sum(axis=1)) / (0.75**2 * 5)))[:, np.newaxis]
    design = np.column_stack([np.ones(32), present])
    truth = np.linalg.lstsq(design * weights, score.predict(present) * weights, rcond=None)[0]
    found = Lime(score, ZEROS, samples=20_000, ridge=0.0)(ONES)
    assert found.standard_errors is not None
    # Eight standard errors, and the exact zero of an item outside the head.
    away = np.abs(found.values[0, :, 0] - truth[1:, 0])
    assert (away <= 8 * found.standard_errors[0, :, 0] + 1e-9).all()
