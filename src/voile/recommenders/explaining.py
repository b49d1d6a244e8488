"""Why these items? What each item of a history, each genre or each group adds to a score.

A linear model's score is a sum over the history, so everything here is exact: an item of the
history adds its weight; a genre adds its equal share of every item that has it, which is its
Shapley value in the game in which an item counts by the share of its genres that are there.

Toward the user herself all of it is free (`toward_herself`). Toward others see
`voile.recommenders.third_party`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Final, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial.distance import squareform

from voile.attribution import ExactShapley, IntegratedGradients, KernelShapley
from voile.attribution.choosing import MOST_EXACT_PLAYERS
from voile.core.errors import InvalidInput
from voile.core.explanation import Explanation
from voile.core.guarantee import Adversary, Guarantee
from voile.models import WrappedModel, wrap
from voile.recommenders.models import LinearRecommender, Recommender, best
from voile.recommenders.moments import Matrix
from voile.recommenders.networks import NetworkRecommender, head_rows
from voile.recommenders.shop import Catalogue, History
from voile.release import Origin, PostProcessed, trained_privately
from voile.release.contract import ExplainerName
from voile.release.feature_clusters import CLUSTERS
from voile.training import Perceptron

RECOMMENDED: Final = 10
TO_HERSELF: Final = (
    "what is computed from a user's own history is shown to that user alone (joint differential "
    "privacy): it says nothing to her about others, and to others nothing at all"
)
SCORE: Final = "score"
Groups: TypeAlias = Mapping[str, Sequence[str]]
"""By the name of a group, its labels of one kind; labels in no group stand for themselves."""


class NamedExplainer(Protocol):
    """Explains one history, and says what it is called."""

    @property
    def name(self) -> str: ...

    @property
    def tag(self) -> str:
        """For identities."""

    def __call__(self, rows: Any) -> Explanation: ...


@dataclass(frozen=True, eq=False)
class ByItems:
    """Players are the items of the history; for the user herself only, because they *are* it."""

    model: LinearRecommender
    count: int = RECOMMENDED
    name: str = "items of the history"
    tag: ClassVar[str] = "history-items"

    def __call__(self, rows: Any) -> Explanation:
        history = one_history(rows)
        items = recommended(self.model, history, self.count)
        names = self.model.catalogue.names
        players = tuple(names[place] for place in history) or ("nothing",)
        values = self.model.contributions(history, items)
        if not len(history):
            values = np.zeros((1, len(items)))
        base = self.model.base(history, items)
        return one_row(self.model.catalogue, values, base, players, items)


@dataclass(frozen=True, eq=False)
class ByLabels:
    """Players are the labels of a kind, such as genres, or groups of them."""

    model: LinearRecommender
    kind: str
    count: int = RECOMMENDED
    groups: Groups | None = None

    @property
    def name(self) -> str:
        return f"{self.kind} of the history"

    @property
    def tag(self) -> str:
        return f"history-labels/{self.kind}"

    def __call__(self, rows: Any) -> Explanation:
        history = one_history(rows)
        items = recommended(self.model, history, self.count)
        players, shares = self.players
        values = shares[history].T @ self.model.contributions(history, items)
        base = self.model.base(history, items)
        return one_row(self.model.catalogue, values, base, players, items)

    @cached_property
    def players(self) -> tuple[tuple[str, ...], Matrix]:
        """Their names, and how each item of the catalogue is split among them."""
        return grouped_shares(self.model.catalogue, self.kind, self.groups or {})

    def profile(self, history: History) -> NDArray[np.float64]:
        """One figure for each player: what it adds to all recommendations together."""
        items = recommended(self.model, history, self.count)
        _, shares = self.players
        return np.asarray(shares[history].T @ self.model.contributions(history, items).sum(axis=1))


@dataclass(frozen=True, eq=False)
class ScoresOnly:
    """What is recommended, without a reason: the scores of the best items."""

    model: Recommender
    count: int = RECOMMENDED
    name: str = "recommendations"
    tag: ClassVar[str] = "recommendations"

    def __call__(self, rows: Any) -> Explanation:
        history = one_history(rows)
        scores = scores_of(self.model, history)
        items = best(scores, history, self.count)
        base = np.zeros(len(items))
        return one_row(self.model.catalogue, scores[items][np.newaxis], base, (SCORE,), items)


def score_by_labels(
    model: Recommender, history: History, item: int, kind: str
) -> Callable[[NDArray[Any]], NDArray[np.float64]]:
    """The score of one item as a function of which labels are there, for any recommender.

    For explainers of `voile.attribution` (Shapley values, LIME), where a model has no closed form:
    a row has a number in [0, 1] for each label, and an item of the history counts by the share of
    its labels that are there. All ones is the history as it is, all zeros an empty one.
    """
    _, shares = grouped_shares(model.catalogue, kind, {})
    of_history = shares[history]

    def scores(rows: NDArray[Any]) -> NDArray[np.float64]:
        given = np.clip(np.asarray(rows, dtype=np.float64), 0.0, 1.0)
        weights = sparse.lil_array((len(given), len(model.catalogue)))
        weights[:, history] = given @ of_history.T
        return np.asarray(model.scores(sparse.csr_array(weights))[:, item])

    return scores


@dataclass(frozen=True, eq=False)
class ReasonsByLabels:
    """Shapley values of labels, for a model without a closed form; for the user herself."""

    model: Recommender
    kind: str
    count: int = RECOMMENDED

    @property
    def name(self) -> str:
        return f"{self.kind} of the history"

    @property
    def tag(self) -> str:
        return f"history-labels-shapley/{self.kind}"

    def __call__(self, rows: Any) -> Explanation:
        history = one_history(rows)
        items = recommended(self.model, history, self.count)
        labels = self.model.catalogue.labels(self.kind)
        many = len(labels) > MOST_EXACT_PLAYERS
        values, base = np.zeros((len(labels), len(items))), np.zeros(len(items))
        for place, item in enumerate(items):
            score = score_by_labels(self.model, history, int(item), self.kind)
            explain: Any = (KernelShapley if many else ExactShapley)(
                score, np.zeros((1, len(labels)))
            )
            found = explain(np.ones((1, len(labels))))
            values[:, place], base[place] = found.values[0, :, 0], found.base_values[0, 0]
        return one_row(self.model.catalogue, values, base, labels, items)


def toward_herself(guarantee: Guarantee) -> Guarantee:
    """What the moments promise, said of what one user is shown about herself."""
    return replace(
        guarantee,
        against=(Adversary.PUBLIC, Adversary.OTHER_USERS),
        assumptions=(*guarantee.assumptions, TO_HERSELF),
    )


def for_herself(explainer: NamedExplainer, guarantee: Guarantee, *, model: str) -> PostProcessed:
    """A release that costs nothing: model and own history, and nobody else's.

    Args:
        guarantee: of the moments that the model was made from.
        model: digest of the model, for the record.
    """
    origin: Origin = trained_privately(toward_herself(guarantee))
    name = ExplainerName(explainer.name, explainer.tag)
    return PostProcessed(explainer, [origin], model, name)


def grouped_shares(
    catalogue: Catalogue, kind: str, groups: Groups
) -> tuple[tuple[str, ...], Matrix]:
    """How an item is split among players: labels, or groups of them with the sum of their shares.

    The game of groups is additive too, so this is the group's own Shapley value.
    """
    labels, shares = catalogue.labels(kind), catalogue.shares(kind)
    if not groups:
        return labels, shares
    team = {label: group for group, members in groups.items() for label in members}
    unknown = sorted(set(team) - set(labels))
    if unknown or len(team) < sum(map(len, groups.values())):
        raise InvalidInput(
            f"groups of {kind} name each of its labels once at most; unknown: {unknown or 'none'}"
        )
    players = tuple(dict.fromkeys(team.get(label, label) for label in labels))
    place = {player: number for number, player in enumerate(players)}
    joined = np.zeros((len(labels), len(players)))
    joined[np.arange(len(labels)), [place[team.get(label, label)] for label in labels]] = 1.0
    return players, shares @ joined


def label_clusters(catalogue: Catalogue, kind: str, count: int = CLUSTERS) -> Groups:
    """Labels that often stand on the same items, in at most `count` groups; from public facts.

    Joined by average linkage on one minus the cosine of their items.
    """
    labels, there = catalogue.labels(kind), catalogue.shares(kind).T > 0
    if len(labels) <= count:
        return {}
    lengths = np.sqrt(np.maximum(there.sum(axis=1), 1))
    common = there.astype(np.float64) @ there.T
    distance = 1 - common / np.outer(lengths, lengths)
    np.fill_diagonal(distance, 0.0)
    numbers = fcluster(
        linkage(squareform(distance, checks=False), "average"), count, criterion="maxclust"
    )
    members = [
        tuple(label for label, at in zip(labels, numbers, strict=True) if at == number)
        for number in dict.fromkeys(numbers)
    ]
    return {" + ".join(group): group for group in members}


def recommended(model: Recommender, history: History, count: int) -> NDArray[np.int64]:
    """The best items for one history."""
    return best(scores_of(model, history), history, count)


def scores_of(model: Recommender, history: History) -> NDArray[np.float64]:
    """Of all items, for one history."""
    row = sparse.csr_array(
        (np.ones(len(history)), history, [0, len(history)]), shape=(1, len(model.catalogue))
    )
    return np.asarray(model.scores(row)[0])


def one_history(rows: Any) -> History:
    """The one history in a list of them: explanations by items have players of their own."""
    if len(rows) != 1:
        raise InvalidInput(f"one user is explained at a time, found {len(rows)}")
    return np.asarray(rows[0], dtype=np.int64)


def one_row(
    catalogue: Catalogue,
    values: Matrix,
    base: NDArray[np.float64],
    players: tuple[str, ...],
    items: NDArray[np.int64],
) -> Explanation:
    """Players by items that are recommended, best first.

    Whoever has nothing that counts is recommended what is popular: no reason, but a base.
    """
    if not len(items):
        raise InvalidInput("there is nothing left to recommend: every item was touched already")
    return Explanation(
        values=values[np.newaxis],
        base_values=base,
        feature_names=players,
        output_names=tuple(catalogue.names[place] for place in items),
    )


# --- A network's score by items of the history, for any explainer of `voile.attribution` ----------
# Integrated gradients, LIME and Shapley values then explain the same function of the same players:
#
#     model = score_by_items(recommender, history, item)
#     IntegratedGradients(model)(np.ones((1, len(history))))
#     Lime(model, np.zeros((1, len(history))))(np.ones((1, len(history))))
#
# For the user herself only: the players are her history.


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

    def inputs_of(rows: NDArray[Any]) -> tuple[NDArray[Any], int]:
        return kind.score_inputs(np.asarray(rows, dtype=np.float64) @ weights, int(places[0]))

    def scores(rows: NDArray[Any]) -> NDArray[np.float64]:
        inputs, output = inputs_of(rows)
        return np.asarray(network(inputs)[:, output])

    def gradient(rows: NDArray[Any], _: int) -> NDArray[np.float64]:
        return _slopes(network, *inputs_of(rows))[:, : len(model.head)] @ weights.T

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
