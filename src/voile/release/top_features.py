"""`PrivateTopFeatures`: which features matter most to a private population, by name.

Signed peeling: each choice names the feature and the direction with the (nearly) largest mean
attribution. The explanation holds names and not attributions: +1 or −1 for what was named, 0 for
what was not. For one person's row see `TopFeaturesOfRow`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from voile.core.errors import InvalidInput
from voile.core.explanation import Explanation
from voile.core.guarantee import Adversary, Guarantee, Protected
from voile.core.schema import Schema
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
from voile.release.artefact_guarantees import notes_on_unprotected_data, with_artefacts
from voile.release.contract import NOT_CHARGED, Preview, ReleaseIdentity, RowsAre, parameters
from voile.release.origin import Origin, origins_digest, refuse_unprotected, stated
from voile.release.per_row import EXPLAINER_IS_STATELESS, PerRow
from voile.release.post_processed import Explainer
from voile.release.silence import MODEL_OUTPUT_UNPUBLISHED

NAMES_ONLY: Final = "names, not attributions: +1 or -1 where a feature was named, else 0"
# Rounding of a mean over n rows, relative to the share 1/n of one of them.
ROUNDING: Final = 1e-14


@dataclass(frozen=True, eq=False)
class PrivateTopFeatures:
    """The k features with the largest mean attribution over a private population, best first.

    Guarantees
        1. (epsilon, delta) for each row of the population, for all k choices together.
        2. Only names, directions and their order leave; the explained rows do not.

    Args:
        explainer: of one output, whose background does not depend on the population.
        schema: rows are clamped to it.
        k: how many features are named.
        output_width: R, the width of the range that the model's output is clamped to; attributions
            of a row are clamped to ±R one by one.
        epsilon, delta: of the whole release; with delta = 0 it is pure.
        protected: a row of the population; blank one or replace one.
        origins: of everything that the explainer holds.
        model: digest of what is explained, for the record.
        name: of the explainer, for the record.
        signed: name the direction too; otherwise features are chosen by mean |attribution|.
    """

    explainer: Explainer
    _: KW_ONLY
    schema: Schema
    k: int
    output_width: float
    epsilon: float
    delta: float
    protected: Protected
    origins: Sequence[Origin]
    model: str
    name: str
    signed: bool = True
    level: str = "detailed"
    _inner: PerRow = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "origins", stated(self.origins))
        refuse_unprotected(self.protected.dataset, self.origins, role="population")
        checked_target(self.epsilon, self.delta, pure=True)
        check_bounds(self.sensitivity(1), self.protected)
        inner = PerRow(self.explainer, self.schema)
        check_one_output(inner)
        if positive("k", self.k) > inner.players:
            raise InvalidInput(f"of {inner.players} features {self.k} cannot be named")
        object.__setattr__(self, "_inner", inner)
        self.guarantees(1)  # what does not add up is said now

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
    def identity(self) -> ReleaseIdentity:
        settings = {
            "dataset": self.protected.dataset,
            "delta": self.delta,
            "epsilon": self.epsilon,
            "k": self.k,
            "origins": origins_digest(self.origins),
            "output_width": self.output_width,
            "relation": str(self.protected.relation),
            "schema": self.schema.digest,
            "signed": self.signed,
        }
        return ReleaseIdentity(
            self.model, f"top features by {self.name}", self.level, parameters(settings)
        )

    @property
    def rows_are(self) -> RowsAre:
        return RowsAre.POPULATION

    def cost(self, rows: int) -> PrivacyEvent:
        positive("rows", rows)
        return Repeated(BoundedRange(self.epsilon_each), self.k)

    def guarantees(self, rows: int) -> tuple[Guarantee, ...]:
        promise = Guarantee(
            epsilon=self.epsilon,
            delta=self.delta,
            protected=self.protected,
            against=(Adversary.PUBLIC,),
            computational=False,
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
        return with_artefacts(promise, self.origins)

    def preview(self, rows: int = 1) -> Preview:
        candidates = self._inner.players * (2 if self.signed else 1)
        choice = self._choice(rows, candidates).preview()
        return Preview(
            event=self.cost(rows),
            guarantees=self.guarantees(rows),
            accuracy=f"features whose mean attributions lie {choice.gap:.4g} apart are told apart "
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
        return names_only(
            values[np.newaxis],
            self._inner,
            self.guarantees(len(inside)),
            (f"named in this order: {said}", *notes_on_unprotected_data(self.origins)),
        )

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
    notes: tuple[str, ...],
) -> Explanation:
    return Explanation(
        values=values,
        base_values=np.zeros(1),
        feature_names=inner.known.feature_names,
        output_names=inner.known.output_names,
        guarantees=guarantees,
        notes=(NAMES_ONLY, *notes, NOT_CHARGED),
    )
