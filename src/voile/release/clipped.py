"""`ClippedRelease`: the attributions of one person's row, for a reader who may not see the row.

With `voile.attribution.IntegratedGradients` this is AGNI, the adaptive gradient noise injection of
the recommender framework (Algorithm 1 there), with two corrections: two vectors of length C are up
to 2C apart, so the sensitivity is 2C and not C, and the noise follows the analytic calibration,
which holds for every epsilon.

A full vector is mostly noise at small epsilon (docs/guarantees/explained-row.md): run the explainer
where the record is, or name top features (`TopFeaturesOfRow`).
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, Final

import numpy as np

from voile.core.explanation import Explanation
from voile.core.explanation_checks import Attributions
from voile.core.guarantee import Guarantee, ProtectedUnit, RowPart
from voile.privacy.events import PrivacyEvent
from voile.privacy.mechanisms import GaussianMechanism
from voile.privacy.sensitivity import Norm, Sensitivity, clipped_vector
from voile.privacy.sensitivity.bound import check_bounds, positive
from voile.release.charged import Accuracy, ExplainerRelease
from voile.release.origin import origins_v1
from voile.release.records import EXPLAINER_IS_STATELESS
from voile.release.silence import MODEL_OUTPUT_UNPUBLISHED

NOISE_ONLY: Final = "standard errors and half widths are those of the noise on clipped values"
OF_ONE_ROW: Final = (
    "the rows of one call are different records; a record that is explained again pays again",
    "running time is not observed",
    "the model, and all that the explainer holds, do not depend on the explained rows, or only "
    "through differential privacy that is charged besides",
    EXPLAINER_IS_STATELESS,
    MODEL_OUTPUT_UNPUBLISHED,
)


@dataclass(frozen=True, eq=False)
class ClippedRelease(ExplainerRelease):
    """Every row's vector (all features and outputs) clipped to length C, and noise at 2C.

    Guarantees
        1. Any row stands against any other: (epsilon, delta) for each explained row.
        2. Each row is explained alone and has noise of its own, so different records compose in
           parallel: a call costs each of them one event, however many rows it has.
        3. The explained rows and their own base values are not in the result.

    Args (in addition to those of `ExplainerRelease`):
        bound: C, the length that vectors are clipped to; a public choice.
        epsilon, delta: for each row.
        protected: an explained row of a data set; replace one, as nothing else is offered for it.

    >>> from voile.core.guarantee import Protected
    >>> from voile.attribution import ExactShapley
    >>> from voile.core.schema import Feature, Numbers, Schema
    >>> from voile.release import PUBLIC
    >>> schema = Schema("t", (Feature("age", Numbers(0, 1)), Feature("bmi", Numbers(0, 1))))
    >>> release = ClippedRelease(
    ...     ExactShapley(lambda x: x.mean(axis=1), [[0.5, 0.5]], schema=schema), schema=schema,
    ...     bound=0.5, epsilon=4.0, delta=1e-6, origins=[PUBLIC], model="sha256:ab12", name="exact",
    ...     protected=Protected("explained row", "replace one", "patients"))
    >>> float(release.sensitivity), release.cost(10) == release.cost(1)
    (1.0, True)
    """

    _: KW_ONLY
    bound: float
    _noise: GaussianMechanism = field(init=False, repr=False)
    part: ClassVar = RowPart.EXPLAINED
    tag: ClassVar = "clipped-values"
    way: ClassVar = "clipped"

    def prepare(self) -> None:
        sensitivity = self.sensitivity
        check_bounds(sensitivity, self.protected)
        super().prepare()
        shape = (self._inner.players, self._inner.outputs)
        noise = GaussianMechanism.calibrated(
            sensitivity, epsilon=self.epsilon, delta=self.delta, shape=shape
        )
        object.__setattr__(self, "_noise", noise)

    @property
    def sensitivity(self) -> Sensitivity:
        """2C: the distance of two opposite vectors of length C."""
        return clipped_vector(
            bound=self.bound,
            norm=Norm.L2,
            unit=ProtectedUnit.EXPLAINED_ROW,
            relation=self.protected.relation,
        )

    @property
    def settings_v1(self) -> dict[str, object]:
        return {
            "bound": self.bound,
            "dataset": self.protected.dataset,
            "delta": self.delta,
            "epsilon": self.epsilon,
            "origins": origins_v1(self.origins),
            "schema": self.schema.digest,
        }

    def cost(self, rows: int) -> PrivacyEvent:
        """What each of the explained records pays: one event, whatever the number of others."""
        positive("rows", rows)
        return self._noise.event()

    def noise_guarantee(self, rows: int) -> Guarantee:  # noqa: ARG002
        return self._promised

    @cached_property
    def _promised(self) -> Guarantee:
        return self.promise(
            mechanism=f"Gaussian noise of standard deviation {self._noise.sigma:.6g} on vectors "
            f"clipped to length {self.bound:g}",
            composition="one release of each row; different rows in parallel",
            public_facts=("schema", "model and explainer", "clipping length", "number of rows"),
            assumptions=(*self.sensitivity.conditions, *OF_ONE_ROW),
        )

    def accuracy(self, rows: int) -> Accuracy:  # noqa: ARG002
        shown = self._noise.preview()
        size = self._inner.players * self._inner.outputs
        length = size**0.5 * shown.standard_deviation
        return Accuracy.from_noise(
            shown,
            f"noise of {size} values is {length:.3g} long, what it hides at most "
            f"{self.bound:g}: {length / self.bound:.2g} times as long",
        )

    def draw(self, rows: Any) -> Explanation:
        vectors = clipped(self._inner.vectors(rows), self.bound)
        # Every value has its own noise, of a law that does not depend on how many there are.
        noisy = replace(self._noise, shape=vectors.shape).randomise(vectors)
        known, shown = self._inner.known, self._noise.preview()
        return Explanation(
            values=noisy,
            base_values=self._inner.base,
            feature_names=known.feature_names,
            output_names=known.output_names,
            standard_errors=np.full(noisy.shape, shown.standard_deviation),
            half_widths=np.full(noisy.shape, shown.half_width),
            guarantees=self.guarantees(len(noisy)),
            notes=self.notes(*self._inner.notes, NOISE_ONLY),
        )


def clipped(vectors: Attributions, bound: float) -> Attributions:
    """Each row's vector, all players and outputs together, shortened to length `bound`."""
    largest = np.abs(vectors).max(axis=(1, 2), keepdims=True)
    scale = np.where(largest > 0, largest, 1.0)
    with np.errstate(over="ignore"):  # a length that no float holds is infinite: nothing is left
        # Divided by the largest entry first: the square of a large entry would overflow too early.
        length = np.sqrt(((vectors / scale) ** 2).sum(axis=(1, 2), keepdims=True)) * scale
        short: Attributions = vectors / np.maximum(length / bound, 1.0)
    return short
