"""Networks over users' histories, audited: canaries with known gradients among invented users.

Walked is what production walks: unit rows on a head, null records, `fit_privately` with what is
asked about a user as one record. The kind of network is invented, one whose gradients are known,
and the optimiser writes down every noisy gradient (see `training_canaries`).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from voile.assess.assessment import Arrangement, AuditTrial, TrialResult, fair_coins
from voile.assess.betting import Floats
from voile.assess.training_canaries import (
    FEW,
    LINES,
    LONG,
    SCORES,
    GradientRecorder,
    SlopeLoss,
    gradient_scores,
    log_likelihood,
)
from voile.core.guarantee import Relation
from voile.recommenders import Catalogue, Interactions, ItemPopularity, PrivateNetwork
from voile.training import Batch, Perceptron
from voile.training.optimisers import Optimiser

MANY = 150
_BEYOND = 8.0
"""How many clipping norms long a canary's gradient is before it is clipped."""


@dataclass(frozen=True)
class _KnownGradients:
    """One weight for each item, and a gradient along the item that a user has touched.

    The first half of the head is for canaries, the second for what stands against each: it has the
    opposite gradient on the weight of the canary.
    """

    slope: float
    lines: int
    name: str = "invented"
    loss: SlopeLoss = field(default_factory=SlopeLoss)
    identity: ClassVar[dict[str, object]] = {"kind": "invented"}
    identity_v1: ClassVar[str] = "invented"

    def shape(self, head: int) -> tuple[int, tuple[int, ...], int]:
        return head // 2, (), 1

    def prepare(self, batch: Batch) -> Batch:
        (rows,) = batch
        half = rows.shape[1] // 2
        inputs = LONG * (rows[:, :half] - rows[:, half:])
        slopes = np.full(len(rows), -self.slope / LONG, dtype=np.float32)
        if self.lines > 1:
            inputs = np.repeat(inputs[:, np.newaxis], self.lines, axis=1)
        return inputs.astype(np.float32), slopes

    def scores(self, network: Perceptron, rows: Any) -> Any:
        raise NotImplementedError("nothing is recommended in a trial")

    def score_inputs(self, rows: Any, place: int) -> Any:
        raise NotImplementedError("nothing is explained in a trial")


@dataclass(frozen=True, eq=False)
class _RecordedNetwork(PrivateNetwork):
    """The release with a recorder for an optimiser, at a price that was worked out before."""

    price: float = field(kw_only=True)
    recorder: GradientRecorder = field(default_factory=GradientRecorder, kw_only=True)

    def prepare(self) -> None:
        object.__setattr__(self, "epsilon", self.price)

    @property
    def optimiser(self) -> Optimiser:
        return self.recorder


@dataclass(frozen=True, eq=False)
class HistoryCanaries:
    """Users each of whom has touched one item of her own.

    Args:
        release: as it is charged.
        name: of the arrangement.
        canaries: how many users there are; each is a canary.
        lines: how often each is asked about in a step.
    """

    release: PrivateNetwork
    name: str
    canaries: int
    lines: int = 1
    score_names: tuple[str, ...] = SCORES

    def play(self, draw: np.random.Generator) -> TrialResult:
        inside = fair_coins(draw, 1, self.canaries)
        made = self._made(inside[0])
        made.draw()
        found = self._scores(made.recorder.gradients)
        return TrialResult(inside, {name: scores[np.newaxis] for name, scores in found.items()})

    @cached_property
    def _catalogue(self) -> Catalogue:
        return Catalogue("invented", tuple(f"item {n}" for n in range(2 * self.canaries)), {})

    def _made(self, coins: NDArray[np.bool_]) -> _RecordedNetwork:
        count, real = self.canaries, self.release
        privacy = replace(real.privacy, rows=count)
        popular = np.arange(2.0 * count, 0.0, -1.0)
        return _RecordedNetwork(
            self._users(coins),
            _KnownGradients(_BEYOND * privacy.clipping_norm, self.lines),
            protected=real.protected,
            delta=real.delta,
            chosen=ItemPopularity(popular, event=None),
            head=2 * count,
            privacy=privacy,
            rate=real.rate,
            price=real.epsilon,
        )

    def _users(self, coins: NDArray[np.bool_]) -> Interactions:
        """Whoever is out has no history; or the opposite one ("replace one")."""
        places = np.arange(self.canaries)
        is_replaced = self.release.protected.relation is Relation.REPLACE_ONE
        user = places if is_replaced else places[coins]
        item = np.where(coins, places, self.canaries + places)[user]
        nothing = np.full(len(user), np.nan)
        names = tuple(f"user {place}" for place in places)
        return Interactions(self._catalogue, names, user, item, nothing, nothing)

    def _scores(self, seen: Floats) -> dict[str, Floats]:
        count, steps = self.canaries, replace(self.release.privacy, rows=self.canaries)
        unit = steps.clipping_norm / (steps.sampling_rate * steps.rows)
        along = seen[:, :count] / unit
        noise, rate, relation = steps.noise_multiplier, steps.sampling_rate, steps.relation
        return gradient_scores(along, along, log_likelihood(along, rate, noise, relation))


def history_trial(name: str, release: PrivateNetwork) -> AuditTrial:
    """A network as it is charged; no command audits its steps."""

    def arrangements(halved: bool) -> tuple[Arrangement, ...]:
        steps = release.privacy
        less = replace(steps, noise_multiplier=steps.noise_multiplier / 2)
        tried = replace(release, privacy=less) if halved else release
        return (
            HistoryCanaries(tried, "many users", MANY),
            HistoryCanaries(tried, "few users, asked about much", FEW, LINES),
        )

    return AuditTrial(name, release.cost(1), arrangements, release.delta)
