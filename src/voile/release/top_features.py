"""`PrivateTopFeatures`: which features matter most to a private population, by name.

Signed peeling: each choice names the feature and the direction with the (nearly) largest mean
attribution. The explanation holds names and not attributions: +1 or −1 for what was named, 0 for
what was not. For one person's row see `TopFeaturesOfRow`.
"""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from voile.core.errors import InvalidInput
from voile.core.explanation import Explanation
from voile.core.guarantee import Guarantee, RowPart
from voile.core.row_note import KnownNote, Note
from voile.privacy.accounting.conversion import zcdp_budget
from voile.privacy.events import BoundedRange, PrivacyEvent, Repeated
from voile.privacy.mechanisms import ExponentialMechanism
from voile.privacy.mechanisms.parameters import checked_target
from voile.privacy.sensitivity import (
    Sensitivity,
    mean_absolute_shapley_coordinate,
    signed_mean_shapley_coordinate,
)
from voile.privacy.sensitivity.bound import check_bounds, positive
from voile.release.charged import Accuracy, ExplainerRelease
from voile.release.identities import origins_v1
from voile.release.per_row import EXPLAINER_IS_STATELESS, PerRow
from voile.release.silence import MODEL_OUTPUT_UNPUBLISHED

# Rounding of a mean over n rows, relative to the share 1/n of one of them.
ROUNDING: Final = 1e-14


@dataclass(frozen=True, eq=False)
class PrivateTopFeatures(ExplainerRelease):
    """The k features with the largest mean attribution over a private population, best first.

    Guarantees
        1. (epsilon, delta) for each row of the population, for all k choices together.
        2. Only names, directions and their order leave; the explained rows do not.

    Args: besides those of `ExplainerRelease`:
        explainer: of one output, whose background does not depend on the population.
        k: how many features are named.
        output_width: R, the width of the range that the model's output is clamped to; attributions
            of a row are clamped to ±R one by one.
        epsilon, delta: of the whole release; with delta = 0 it is pure.
        protected: a row of the population; blank one or replace one.
        signed: name the direction too; otherwise features are chosen by mean |attribution|.
    """

    _: KW_ONLY
    k: int
    output_width: float
    signed: bool = True
    part: ClassVar = RowPart.POPULATION
    tag: ClassVar = "top-features"
    way: ClassVar = "top features by"

    def prepare(self) -> None:
        checked_target(self.epsilon, self.delta, pure=True)
        check_bounds(self.sensitivity(1), self.protected)
        super().prepare()
        check_one_output(self._inner)
        if positive("k", self.k) > self._inner.players:
            raise InvalidInput(f"of {self._inner.players} features {self.k} cannot be named")

    def sensitivity(self, rows: int) -> Sensitivity:
        """How far one row moves the score of each candidate, the rounding of the mean included."""
        bound = signed_mean_shapley_coordinate if self.signed else mean_absolute_shapley_coordinate
        exact = bound(rows=rows, output_width=self.output_width, relation=self.protected.relation)
        return exact.scaled(1 + ROUNDING * rows)

    @property
    def epsilon_each(self) -> float:
        """Of one choice: pure composition, or concentrated where delta makes that cheaper."""
        pure = self.epsilon / self.k
        if not self.delta:
            return pure
        rho = zcdp_budget(self.epsilon, self.delta)
        return max(pure, math.sqrt(8 * rho / self.k) * (1 - 1e-12))

    @property
    def settings_v1(self) -> dict[str, object]:
        return {
            "dataset": self.protected.dataset,
            "delta": self.delta,
            "epsilon": self.epsilon,
            "k": self.k,
            "origins": origins_v1(self.origins),
            "output_width": self.output_width,
            "relation": str(self.protected.relation),
            "schema": self.schema.digest,
            "signed": self.signed,
        }

    def cost(self, rows: int) -> PrivacyEvent:
        positive("rows", rows)
        return Repeated(BoundedRange(self.epsilon_each), self.k)

    def own_guarantee(self, rows: int) -> Guarantee:
        return self.promise(
            mechanism=f"exponential mechanism, epsilon {self.epsilon_each:.6g} for each choice",
            composition=f"{self.k} choices, "
            + ("one after the other" if not self.delta else "as concentrated or basic, the better"),
            public_facts=("schema", "model and explainer", f"number of rows: {rows}"),
            assumptions=(
                *self.sensitivity(rows).conditions,
                EXPLAINER_IS_STATELESS,
                MODEL_OUTPUT_UNPUBLISHED,
            ),
        )

    def accuracy(self, rows: int) -> Accuracy:
        candidates = self._inner.players * (2 if self.signed else 1)
        choice = self._choice(rows, candidates).preview()
        return Accuracy(
            f"features whose mean attributions lie {choice.gap:.4g} apart are told apart "
            f"with 95 % (the output range is {self.output_width:g} wide)",
        )

    def draw(self, rows: Any) -> Explanation:
        vectors = self._inner.vectors(rows)[:, :, 0]
        inside = np.clip(vectors, -self.output_width, self.output_width)
        named = self._peel(self.scores(inside), len(inside))
        players = self._inner.players
        values, order = np.zeros(players), []
        for candidate in named:
            feature, sign = candidate % players, 1.0 if candidate < players else -1.0
            values[feature] = sign
            order.append((feature, sign))
        said = _said(self._inner, order, signed=self.signed)
        notes = self.notes(KnownNote.NAMES_ONLY, f"named in this order: {said}")
        return names_only(values[np.newaxis], self._inner, self.guarantees(len(inside)), notes)

    def scores(self, vectors: NDArray[np.float64]) -> NDArray[np.float64]:
        """Of each candidate: features upward, then, where directions are named, downward."""
        if not self.signed:
            return means_of(np.abs(vectors))
        mean = means_of(vectors)
        both: NDArray[np.float64] = np.maximum(np.concatenate([mean, -mean]), 0.0)
        return both

    def _choice(self, rows: int, candidates: int) -> ExponentialMechanism:
        return ExponentialMechanism(
            epsilon=self.epsilon_each,
            sensitivity=self.sensitivity(rows),
            candidates=candidates,
        )

    def _peel(self, scores: NDArray[np.float64], rows: int) -> list[int]:
        """One candidate after the other; a feature that was named drops out in both directions."""
        left, named = np.arange(len(scores)), []
        for _ in range(self.k):
            named.append(int(left[self._choice(rows, len(left)).randomise(scores[left])]))
            left = left[left % self._inner.players != named[-1] % self._inner.players]
        return named


def check_one_output(inner: PerRow) -> None:
    if inner.outputs != 1:
        raise InvalidInput(
            f"top features are those of one output, found {inner.outputs}; "
            "choose one with model.only(name)"
        )


def means_of(vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    """Over rows, each rounded once: an error must not grow with their number."""
    return np.array([math.fsum(column.tolist()) for column in vectors.T]) / len(vectors)


def _said(inner: PerRow, order: list[tuple[int, float]], *, signed: bool) -> str:
    names = inner.known.feature_names
    return ", ".join(
        names[feature] + (f" ({'+' if sign > 0 else '-'})" if signed else "")
        for feature, sign in order
    )


def names_only(
    values: NDArray[np.float64],
    inner: PerRow,
    guarantees: tuple[Guarantee, ...],
    notes: tuple[Note, ...],
) -> Explanation:
    return Explanation(
        values=values,
        base_values=np.zeros(1),
        feature_names=inner.known.feature_names,
        output_names=inner.known.output_names,
        guarantees=guarantees,
        notes=notes,
    )
