"""`PrivateTopFeatures`: which features matter most to a private population, by name.

Signed peeling: each choice names the feature and the direction with the (nearly) largest mean
attribution. The explanation holds names and not attributions: +1 or −1 for what was named, 0 for
what was not. For one person's row see `TopFeaturesOfRow`.
"""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from voile.core.errors import InvalidInput
from voile.core.explanation import Explanation
from voile.core.guarantee import Guarantee, ProtectedUnit, RowPart
from voile.core.row_note import KnownNote, Note
from voile.privacy.accounting.conversion import zcdp_budget
from voile.privacy.events import BoundedRange, PrivacyEvent, Repeated
from voile.privacy.mechanisms import ExponentialMechanism, SubsetSelection
from voile.privacy.mechanisms.parameters import checked_target
from voile.privacy.sensitivity import (
    Sensitivity,
    mean_absolute_shapley_coordinate,
    signed_mean_shapley_coordinate,
)
from voile.privacy.sensitivity.bound import check_bounds, positive
from voile.release.charged import Accuracy, ExplainerRelease
from voile.release.clipped import OF_ONE_ROW
from voile.release.origin import origins_v1
from voile.release.records import EXPLAINER_IS_STATELESS, PerRow
from voile.release.silence import MODEL_OUTPUT_UNPUBLISHED

# Rounding of a mean over n rows, relative to the share 1/n of one of them.
ROUNDING: Final = 1e-14


@dataclass(frozen=True, eq=False)
class PrivateTopFeatures(ExplainerRelease):
    """The k features with the largest mean attribution over a private population, best first.

    Guarantees
        1. (epsilon, delta) for each row of the population, for all k choices together.
        2. Only names, directions and their order leave; the explained rows do not.

    Args (in addition to those of `ExplainerRelease`):
        explainer: of one output, whose background does not depend on the population.
        k: how many features are named.
        output_width: R, the width of the range that the model's output is clamped to; attributions
            of a row are clamped to ±R one by one.
        epsilon, delta: of the whole release; with delta = 0 it is pure.
        protected: a row of the population; zero-out or replace one.
        signed: name the direction too; otherwise features are chosen by mean |attribution|.

    >>> from voile.core.guarantee import Protected
    >>> from voile.attribution import ExactShapley
    >>> from voile.core.schema import Feature, Numbers, Schema
    >>> from voile.release import PUBLIC
    >>> schema = Schema("t", (Feature("age", Numbers(0, 1)), Feature("bmi", Numbers(0, 1))))
    >>> release = PrivateTopFeatures(
    ...     ExactShapley(lambda x: x[:, 0], [[0.0, 0.0]], schema=schema), schema=schema, k=1,
    ...     output_width=1.0, epsilon=1.0, delta=0.0, origins=[PUBLIC], model="sha256:ab12",
    ...     name="exact", protected=Protected("row", "blank one", "patients"))
    >>> release.draw(np.ones((300, 2))).values.ravel().tolist()  # "age", upward
    [1.0, 0.0]
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

    def noise_guarantee(self, rows: int) -> Guarantee:
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


# --- TopFeaturesOfRow: which features matter most to one person's row, toward a third party -----
# The set of its top features is randomised: sets that overlap the truth are e^epsilon times as
# likely as others. The explanation holds names and not attributions.


_AS_GOOD_AS_A_COIN: Final = 0.5


@dataclass(frozen=True, eq=False)
class TopFeaturesOfRow(ExplainerRelease):
    """The k features of a row with the largest |attribution|, by subset selection.

    With k = 1 this is randomised response. Nothing about the row has to be bounded: the guarantee
    holds for any two sets.

    Guarantees
        1. Pure epsilon for each explained row, any row standing against any other.
        2. Each row is explained alone and answered by itself: different records compose in
           parallel, a call costs each of them one event.

    Args (in addition to those of `ExplainerRelease`):
        explainer: of one output.
        k: how many features are named; fewer than there are.
        epsilon: for each row; there is no delta.
        protected: an explained row of a data set; replace one, as nothing else is offered for it.
        signed: name directions too; twice as many candidates, so it needs more epsilon.

    >>> from voile.core.guarantee import Protected
    >>> from voile.attribution import ExactShapley
    >>> from voile.core.schema import Feature, Numbers, Schema
    >>> from voile.release import PUBLIC
    >>> schema = Schema("t", (Feature("age", Numbers(0, 1)), Feature("bmi", Numbers(0, 1))))
    >>> release = TopFeaturesOfRow(
    ...     ExactShapley(lambda x: x[:, 0], [[0.0, 0.0]], schema=schema), schema=schema, k=1,
    ...     epsilon=2.0, origins=[PUBLIC], model="sha256:ab12", name="exact",
    ...     protected=Protected("explained row", "replace one", "patients"))
    >>> release.cost(1), int(np.abs(release.draw([[1.0, 1.0]]).values).sum())
    (PureDp(epsilon=2.0), 1)
    """

    _: KW_ONLY
    k: int
    delta: float = field(init=False, default=0.0)
    signed: bool = False
    _response: SubsetSelection = field(init=False, repr=False)
    part: ClassVar = RowPart.EXPLAINED
    tag: ClassVar = "top-features-of-row"
    way: ClassVar = "top features of a row by"

    def prepare(self) -> None:
        super().prepare()
        check_one_output(self._inner)
        players = self._inner.players
        if positive("k", self.k) >= players:
            raise InvalidInput(f"naming {self.k} of {players} features tells nothing")
        response = SubsetSelection(
            epsilon=self.epsilon,
            items=players * (2 if self.signed else 1),
            k=self.k,
            unit=ProtectedUnit.EXPLAINED_ROW,
            relation=self.protected.relation,
        )
        check_bounds(response, self.protected)
        object.__setattr__(self, "_response", response)

    @property
    def settings_v1(self) -> dict[str, object]:
        return {
            "dataset": self.protected.dataset,
            "epsilon": self.epsilon,
            "k": self.k,
            "origins": origins_v1(self.origins),
            "schema": self.schema.digest,
            "signed": self.signed,
        }

    def cost(self, rows: int) -> PrivacyEvent:
        """What each of the explained records pays: one event, whatever the number of others."""
        positive("rows", rows)
        return self._response.event()

    def noise_guarantee(self, rows: int) -> Guarantee:  # noqa: ARG002
        return self.promise(
            mechanism=f"subset selection of {self.k} out of {self._response.items}",
            composition="one release of each row; different rows in parallel",
            public_facts=("schema", "model and explainer", "number of rows"),
            assumptions=OF_ONE_ROW,
        )

    def accuracy(self, rows: int) -> Accuracy:  # noqa: ARG002
        truth = self._response.preview().truth
        chance = self.k / self._response.items
        return Accuracy(
            f"a feature that is named is a true one with probability {truth:.3f} "
            f"(by chance {chance:.3f})"
        )

    def draw(self, rows: Any) -> Explanation:
        vectors = self._inner.vectors(rows)[:, :, 0]
        named = [self._response.randomise(self.truth(vector)) for vector in vectors]
        shape = (len(named), 2 if self.signed else 1, self._inner.players)
        chosen = np.zeros(shape)
        for row, items in enumerate(named):
            chosen[row].reshape(-1)[sorted(items)] = 1.0
        # Named in both directions, a feature cancels out: the answer said nothing about it.
        values = chosen[:, 0] - chosen[:, 1] if self.signed else chosen[:, 0]
        notes = self.notes(KnownNote.NAMES_ONLY, *likely_wrong(self._response, "feature"))
        return names_only(values, self._inner, self.guarantees(len(values)), notes)

    def truth(self, vector: NDArray[np.float64]) -> tuple[int, ...]:
        """The top k of one row; among equals, those that stand first in the schema."""
        top = np.argsort(-np.abs(vector), kind="stable")[: self.k]
        down = self.signed * len(vector) * (vector[top] < 0)
        return tuple(int(item) for item in top + down)


def likely_wrong(response: SubsetSelection, what: str) -> tuple[str, ...]:
    """A note for an answer that is right with probability below one half; else nothing.

    It follows from epsilon, k and the number of items, which are public: it tells nothing of the
    record.
    """
    truth = response.preview().truth
    if truth >= _AS_GOOD_AS_A_COIN:
        return ()
    return (
        f"more likely wrong than right: a named {what} is a true one with probability "
        f"{truth:.3f} (by chance {response.k / response.items:.3f})",
    )
