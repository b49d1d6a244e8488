"""Networks trained by DP-SGD with one record = one user: an autoencoder, a collaborative filter.

Everything that the moments do in closed form, by gradients: usually worse at the same budget, and
here to be compared with. A user enters with her history on the head, as a unit vector; embeddings
of items are rows of the first layer, so they are clipped and noised like all else, and there is no
embedding of a user. Only perceptrons are needed, no torch.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, Final, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from voile.core.digest_names import digest_name
from voile.core.errors import InvalidInput, Refused
from voile.core.guarantee import Guarantee, ProtectedUnit, RowPart
from voile.core.randomness import StreamCipher
from voile.privacy.accounting import PrivacyLoss
from voile.privacy.calibration import Reading, smallest_noise_of
from voile.privacy.events import Composed, PrivacyEvent
from voile.privacy.sensitivity.bound import positive
from voile.recommenders.moments import (
    PAID_WITH,
    ItemPopularity,
    Matrix,
    grid_bits,
    packed,
    unit_rows,
    unpacked,
)
from voile.recommenders.shop import Catalogue, Interactions
from voile.release.charged import Accuracy, ChargedRelease, OneTimeArtefact
from voile.release.contract import Codec
from voile.training import Batch, Loss, Perceptron, Sigmoid, Softmax, TargetLoss, perceptron
from voile.training.private import (
    Adam,
    Optimiser,
    PrivateSteps,
    TrainingSpeed,
    fit_privately,
)

_CHUNK: Final = 64
_LINES: Final = 8
"""Items that one user is asked about in one step: half of them hers."""


class NetworkKind(Protocol):
    """What is trained, and how it scores."""

    @property
    def name(self) -> str: ...

    @property
    def identity(self) -> dict[str, object]:
        """Its tag and its settings, for stored identities."""

    @property
    def identity_v1(self) -> str:
        """The same as version 1 spelled it; the text must never change."""

    def shape(self, head: int) -> tuple[int, tuple[int, ...], int]:
        """Inputs, hidden layers, outputs."""

    @property
    def loss(self) -> Loss: ...

    def prepare(self, batch: Batch) -> Batch:
        """From users' unit rows to inputs and targets, user by user."""

    def scores(self, network: Perceptron, rows: NDArray[np.float32]) -> Matrix:
        """Of all head items, shape (users, head)."""

    def score_inputs(self, rows: NDArray[Any], place: int) -> tuple[NDArray[Any], int]:
        """What the network sees when it is asked about one head item, histories first, and which
        of its outputs is that item's score."""


@digest_name("voile.recommenders.networks.Autoencoder")
@dataclass(frozen=True)
class Autoencoder:
    """A history in, the shares of all items out (a multinomial autoencoder, one hidden layer)."""

    hidden: int = 64
    name: str = "autoencoder"

    @property
    def identity(self) -> dict[str, object]:
        return {"kind": "autoencoder", "hidden": self.hidden}

    @property
    def identity_v1(self) -> str:
        return f"Autoencoder(hidden={self.hidden!r}, name={self.name!r})"

    def shape(self, head: int) -> tuple[int, tuple[int, ...], int]:
        return head, (self.hidden,), head

    @property
    def loss(self) -> TargetLoss:
        return TargetLoss(Softmax())

    def prepare(self, batch: Batch) -> Batch:
        (rows,) = batch
        there = (rows > 0).astype(np.float32)
        return rows, there / np.maximum(there.sum(axis=1, keepdims=True), 1)

    def scores(self, network: Perceptron, rows: NDArray[np.float32]) -> Matrix:
        return np.asarray(network(rows), dtype=np.float64)

    def score_inputs(self, rows: NDArray[Any], place: int) -> tuple[NDArray[Any], int]:
        return rows, place


@digest_name("voile.recommenders.networks.CollaborativeFilter")
@dataclass(frozen=True)
class CollaborativeFilter:
    """A history and one item in, whether they belong together out (neural collaborative filtering).

    In each step a user is asked about items of hers, which are taken out of her history for that,
    and as many others; all of it is one record, and is clipped as one.
    """

    hidden: tuple[int, ...] = (32, 16)
    name: str = "collaborative filter"

    @property
    def identity(self) -> dict[str, object]:
        return {"kind": "collaborative-filter", "hidden": list(self.hidden)}

    @property
    def identity_v1(self) -> str:
        return f"CollaborativeFilter(hidden={self.hidden!r}, name={self.name!r})"

    def shape(self, head: int) -> tuple[int, tuple[int, ...], int]:
        return 2 * head, self.hidden, 1

    @property
    def loss(self) -> TargetLoss:
        return TargetLoss(Sigmoid(np.zeros(1, np.float32), np.ones(1, np.float32)))

    def prepare(self, batch: Batch) -> Batch:
        (rows,) = batch
        users, head = rows.shape
        # Which items are asked about is drawn anew each time; it needs no secrecy of its own,
        # because what one user adds is clipped whatever was drawn.
        draw = np.random.default_rng()
        there = rows > 0
        chance = draw.random((users, head))
        own = np.argsort(np.where(there, chance, 2.0), axis=1)[:, : _LINES // 2]
        others = np.argsort(np.where(there, 2.0, chance), axis=1)[:, : _LINES // 2]
        items = np.concatenate([own, others], axis=1)
        inputs = np.zeros((users, items.shape[1], 2 * head), dtype=np.float32)
        inputs[:, :, :head] = rows[:, np.newaxis]
        user, line = np.indices(items.shape)
        inputs[user, line, items] = 0.0
        inputs[user, line, head + items] = 1.0
        wanted = np.take_along_axis(there, items, axis=1)[:, :, np.newaxis]
        return inputs, wanted.astype(np.float32)

    def scores(self, network: Perceptron, rows: NDArray[np.float32]) -> Matrix:
        head = rows.shape[1]
        first, *rest = network.layers
        of_users = rows @ first.weight[:, :head].T
        of_items = first.weight[:, head:].T + first.bias
        found = np.empty((len(rows), head))
        for start in range(0, len(rows), _CHUNK):
            part = slice(start, start + _CHUNK)
            lines = np.maximum(of_users[part, np.newaxis] + of_items, 0)
            for place, layer in enumerate(rest):
                lines = lines @ layer.weight.T + layer.bias
                lines = lines if place == len(rest) - 1 else np.maximum(lines, 0)
            found[part] = lines[:, :, 0]
        return found

    def score_inputs(self, rows: NDArray[Any], place: int) -> tuple[NDArray[Any], int]:
        item = np.zeros_like(rows)
        item[:, place] = 1.0
        return np.concatenate([rows, item], axis=1), 0


@digest_name("voile.recommenders.networks.TrainedNetwork")
@dataclass(frozen=True, eq=False)
class TrainedNetwork(OneTimeArtefact):
    """Parameters of a network over the head items.

    Args: besides those of `OneTimeArtefact`:
        charge: as for `ItemPopularity`.
        values: flat, as the perceptron keeps them.
    """

    charge: str | None = field(default=None, kw_only=True)
    values: NDArray[np.float64]
    what: ClassVar = "networks"
    paid_with: ClassVar = PAID_WITH


@dataclass(frozen=True, eq=False)
class PrivateNetwork(ChargedRelease):
    """A network of users' histories on a released head, by DP-SGD.

    Guarantees
        1. One user moves a step by the clipping norm at most, with all that she is asked about.
        2. A user without history is the null record and adds nothing.

    Args: besides those of `ChargedRelease`:
        interactions: protected.
        kind: what is trained.
        chosen: popularity, paid for; the head is chosen from it.
        head: how many items.
        privacy: steps, sampling, clipping and noise.
        rate: of Adam.
    """

    interactions: Interactions = field(repr=False)
    kind: NetworkKind
    _: KW_ONLY
    chosen: ItemPopularity = field(repr=False)
    head: int
    privacy: PrivateSteps
    rate: float = 0.01
    epsilon: float = field(init=False)
    speed: TrainingSpeed = field(default=TrainingSpeed(), repr=False)
    part: ClassVar = RowPart.TRAINING
    tag: ClassVar = "history-network"

    def prepare(self) -> None:
        self.chosen.check_paid()
        same = self.privacy.relation is self.protected.relation
        if self.protected.unit is not ProtectedUnit.USER or not same:
            raise Refused(
                f"a record of these steps is a user, {self.privacy.relation.word}; they can "
                f"promise nothing about {self.protected}"
            )
        if self.privacy.rows != len(self.interactions):
            raise InvalidInput(
                f"the steps are for {self.privacy.rows} users, found {len(self.interactions)}"
            )
        epsilon = PrivacyLoss().compose(self.privacy.event()).epsilon(self.delta)
        object.__setattr__(self, "epsilon", epsilon)

    @property
    def identity_parts(self) -> tuple[str, str, str]:
        return self.interactions.catalogue.digest, self.kind.name, self.kind.name

    @property
    def settings_v1(self) -> dict[str, object]:
        return {
            "chosen by": self.chosen.charge,
            "delta": self.delta,
            "head": self.head,
            "kind": self.kind.identity_v1,
            "privacy": _steps_v1(self.privacy),
            "rate": self.rate,
        }

    @property
    def settings(self) -> dict[str, object]:
        return {
            "chosen_by": self.chosen.charge,
            "delta": self.delta,
            "head": self.head,
            "network": self.kind.identity,
            "steps": {
                "clipping_norm": self.privacy.clipping_norm,
                "noise_multiplier": self.privacy.noise_multiplier,
                "sampling_rate": self.privacy.sampling_rate,
                "steps": self.privacy.steps,
                "rows": self.privacy.rows,
                "relation": str(self.privacy.relation),
            },
            "rate": self.rate,
        }

    def cost(self, rows: int) -> PrivacyEvent:
        positive("rows", rows)
        return self.privacy.event()

    def noise_guarantee(self, rows: int) -> Guarantee:  # noqa: ARG002
        own = self.promise(
            mechanism=f"DP-SGD of an {self.kind.name}, one record a user",
            composition="all steps by privacy-loss distributions",
            public_facts=("catalogue", "number of users", "the released popularity"),
            assumptions=("all lines of one user make one record", "running time is not observed"),
        )
        return Guarantee.from_dict({**own.to_dict(), "computational": True})

    def accuracy(self, rows: int) -> Accuracy:  # noqa: ARG002
        return Accuracy(f"noise multiplier {self.privacy.noise_multiplier:.3g} in each step")

    @cached_property
    def places(self) -> NDArray[np.int64]:
        return self.chosen.head(self.head)

    @property
    def optimiser(self) -> Optimiser:
        return Adam(self.rate)

    def draw(self, rows: Any = None) -> TrainedNetwork:  # noqa: ARG002
        users = head_rows(self.interactions.matrix, self.places)
        # Who has nothing on the head is the null record, which a NaN says.
        users[~users.any(axis=1)] = np.nan
        network = fresh_network(self.kind, self.head)
        fit_privately(
            network,
            (users,),
            self.kind.loss,
            self.privacy,
            optimiser=self.optimiser,
            prepare=self.kind.prepare,
            speed=self.speed,
        )
        return TrainedNetwork(network.values.astype(np.float64), event=self.cost(1))

    @property
    def codec(self) -> Codec[TrainedNetwork]:
        return Codec(lambda made: packed(made.values), self._unpack)

    def _unpack(self, content: bytes) -> TrainedNetwork:
        shape = fresh_network(self.kind, self.head).values.shape
        return TrainedNetwork(unpacked(content, shape), event=self.cost(1))


@digest_name("voile.recommenders.networks.NetworkRecommender")
@dataclass(frozen=True, eq=False)
class NetworkRecommender:
    """Scores of a trained network; items outside the head rank below it, by popularity."""

    catalogue: Catalogue
    popularity: NDArray[np.float64]
    head: NDArray[np.int64]
    kind: NetworkKind
    network: Perceptron

    def scores(self, histories: sparse.csr_array) -> Matrix:
        rows = head_rows(sparse.csr_array(histories), self.head)
        inside = self.kind.scores(self.network, rows)
        below = self.popularity - self.popularity.max() - 1
        found: Matrix = inside.min(axis=1, keepdims=True) + np.tile(below, (len(rows), 1))
        found[:, self.head] = inside
        return found


def network_recommender(
    kind: NetworkKind,
    made: TrainedNetwork,
    *,
    catalogue: Catalogue,
    chosen: ItemPopularity,
    head: int,
) -> NetworkRecommender:
    """The model of a trained network that was paid for; see `PrivateNetwork`."""
    made.check_paid()
    network = fresh_network(kind, head)
    network.values[:] = made.values
    return NetworkRecommender(catalogue, chosen.values, chosen.head(head), kind, network)


def steps_within(
    first: PrivacyEvent,
    steps: PrivateSteps,
    *,
    epsilon: float,
    delta: float,
    read: Reading | None = None,
) -> PrivateSteps:
    """The same steps with the least noise at which both, what was released first and they, cost at
    most (epsilon, delta) together, as an account reads it (`smallest_noise_of`)."""

    def both(noise: float) -> PrivacyEvent:
        return Composed((first, replace(steps, noise_multiplier=noise).event()))

    noise = smallest_noise_of(both, epsilon=epsilon, delta=delta, read=read)
    return replace(steps, noise_multiplier=noise)


def fresh_network(kind: NetworkKind, head: int) -> Perceptron:
    """Where training begins: weights that anybody may know."""
    inputs, hidden, outputs = kind.shape(head)
    return perceptron(inputs, hidden, outputs, StreamCipher().generator())


def head_rows(histories: sparse.csr_array, head: NDArray[np.int64]) -> NDArray[np.float32]:
    """Histories on the head as unit vectors."""
    rows = unit_rows(histories[:, head], bits=grid_bits(1))
    return np.asarray(rows.toarray(), dtype=np.float32)


def _steps_v1(steps: PrivateSteps) -> str:
    """As version 1 spelled them; the text must never change."""
    stated = str(steps.relation)
    relation = f"<Relation.{stated.upper().replace(' ', '_')}: {stated!r}>"
    return (
        f"PrivateSteps(clipping_norm={steps.clipping_norm!r}, "
        f"noise_multiplier={steps.noise_multiplier!r}, "
        f"sampling_rate={steps.sampling_rate!r}, steps={steps.steps!r}, rows={steps.rows!r}, "
        f"relation={relation})"
    )
