"""A network's score by items of the history, for any explainer of `voile.attribution`.

Integrated gradients, LIME and Shapley values then explain the same function of the same players:

    model = score_by_items(recommender, history, item)
    IntegratedGradients(model)(np.ones((1, len(history))))
    Lime(model, np.zeros((1, len(history))))(np.ones((1, len(history))))

For the user herself only: the players are her history.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from voile.attribution import IntegratedGradients
from voile.core.errors import InvalidInput
from voile.core.explanation import Explanation
from voile.models import WrappedModel, wrap
from voile.recommenders.explaining import RECOMMENDED, one_history, one_row, recommended, scores_of
from voile.recommenders.interactions import History
from voile.recommenders.networks import NetworkRecommender, head_rows
from voile.training import Perceptron


@dataclass(frozen=True, eq=False)
class ReasonsOfNetwork:
    """Integrated gradients of a network's scores by items of the history; for the user herself.

    An item outside the head is recommended for its popularity, and has no reason in a history.
    """

    model: NetworkRecommender
    count: int = RECOMMENDED
    name: ClassVar[str] = "items of the history"
    tag: ClassVar[str] = "history-items-gradients"

    def __call__(self, rows: Any) -> Explanation:
        history = one_history(rows)
        items = recommended(self.model, history, self.count)
        names = self.model.catalogue.names
        players = tuple(names[place] for place in history) or ("nothing",)
        values, base = np.zeros((len(players), len(items))), scores_of(self.model, history)[items]
        for place in np.flatnonzero(np.isin(items, self.model.head) & (len(history) > 0)):
            score = score_by_items(self.model, history, int(items[place]))
            found = IntegratedGradients(score)(np.ones((1, len(history))))
            values[:, place], base[place] = found.values[0, :, 0], found.base_values[0, 0]
        return one_row(self.model.catalogue, values, base, players, items)


def score_by_items(model: NetworkRecommender, history: History, item: int) -> WrappedModel:
    """The score of one head item as a function of how much of each item of a history is there.

    A row has a number for each item of the history: all ones is the history as it is, all zeros an
    empty one. Items keep the weight that they have in the whole history, where it is scaled to
    length 1; so the score is smooth enough for gradients, which are exact.
    """
    places = np.flatnonzero(model.head == item)
    if not len(places):
        raise InvalidInput(
            f"item {model.catalogue.items[item]!r} is not among the {len(model.head)} items of "
            "this network: its score is its popularity, and has no reason in a history"
        )
    weights, network, kind = _weights(model, history), model.network.doubled(), model.kind

    def asked(rows: NDArray[Any]) -> tuple[NDArray[Any], int]:
        return kind.score_inputs(np.asarray(rows, dtype=np.float64) @ weights, int(places[0]))

    def scores(rows: NDArray[Any]) -> NDArray[np.float64]:
        inputs, output = asked(rows)
        return np.asarray(network(inputs)[:, output])

    def gradient(rows: NDArray[Any], _: int) -> NDArray[np.float64]:
        return _slopes(network, *asked(rows))[:, : len(model.head)] @ weights.T

    return wrap(scores, gradient=gradient, output_names=(model.catalogue.names[item],))


def _weights(model: NetworkRecommender, history: History) -> NDArray[np.float64]:
    """Where each item of the history enters the network, and with what; (history, head)."""
    ones = np.ones(len(history))
    shape = 1, len(model.catalogue)
    row = head_rows(sparse.csr_array((ones, history, [0, len(history)]), shape=shape), model.head)
    return np.where(history[:, np.newaxis] == model.head, row.astype(np.float64), 0.0)


def _slopes(network: Perceptron, inputs: NDArray[Any], output: int) -> NDArray[np.float64]:
    """The derivative of one output with respect to every input."""
    *hidden, last = network.layers
    *seen, _ = network.seen(inputs)
    found = np.tile(last.weight[output], (len(inputs), 1))
    for layer, said in zip(reversed(hidden), reversed(seen), strict=True):
        found = (found * (said > 0)) @ layer.weight
    return np.asarray(found)
