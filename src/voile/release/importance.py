"""`PrivateGlobalImportance`: what matters to a model over a private population.

The mean of absolute Shapley values over n records. One record moves it by √2·B·R/n at most under
"replace one" and by B·R/n under "zero-out", however many features there are: with 10,000 records
the noise at (1, 1e-5) is below 0.001 of the output range. Proof: docs/guarantees/importance.md.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from functools import cached_property, lru_cache
from typing import Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from voile.core.errors import InvalidInput
from voile.core.explanation import Explanation
from voile.core.guarantee import Guarantee, RowPart
from voile.core.row_note import KnownNote
from voile.privacy import events
from voile.privacy.mechanisms import GaussianMechanism
from voile.privacy.mechanisms.parameters import MARGIN
from voile.privacy.sensitivity import Sensitivity
from voile.privacy.sensitivity.bound import check_bounds, positive
from voile.release.charged import Accuracy, ModelRelease
from voile.release.coalition_designs import NO_SAMPLING, half_width
from voile.release.contract import ExplainerName
from voile.release.origin import (
    origins_identity,
    origins_v1,
    outputs_identity,
    outputs_v1,
)
from voile.release.population import Importance
from voile.release.records import Records
from voile.release.silence import MODEL_OUTPUT_UNPUBLISHED
from voile.release.top_features import ROUNDING, means_of

_PARTS: Final = (
    "which part a record belongs to is public and fixed, and no record is in two parts",
)


@dataclass(frozen=True, eq=False)
class PrivateGlobalImportance(ModelRelease):
    """The mean of absolute attributions over a private population, or over each of its parts.

    Guarantees
        1. (epsilon, delta) for each record of the population. Parts are disjoint, so each record
           pays for its own part only.
        2. Everything beside the values depends on public facts alone: the number of records in each
           part is one of them.
        3. No record makes `draw` raise or warn; one that cannot be explained counts as zeros.

    Args (in addition to those of `ModelRelease`):
        importance: `ByExplainer` (a public, synthetic or DP background) or `OverItself`.
        protected: a row of the population; zero-out or replace one.
        epsilon, delta: for each record.
        model: digest of what is explained, for the record.
        name: of the explainer, for the record.
        parts: names of the parts of a public, fixed grouping, such as the silos; `draw` then takes
            the records of each part by name, and gives one line for each.

    >>> from voile.core.guarantee import Protected
    >>> from voile.core.schema import Feature, Numbers, Schema
    >>> from voile.models import Box, wrap
    >>> from voile.release import PUBLIC, OverItself
    >>> schema = Schema("t", (Feature("age", Numbers(0, 1)), Feature("bmi", Numbers(0, 1))))
    >>> release = PrivateGlobalImportance(
    ...     OverItself(wrap(lambda x: x.mean(axis=1), outputs=Box(0, 1)), schema),
    ...     protected=Protected("row", "blank one", "patients"), epsilon=1.0, delta=1e-6,
    ...     origins=[PUBLIC], model="sha256:ab12", name="exact")
    >>> release.noise(10_000).sigma < 0.01, release.draw(np.full((50, 2), 0.5)).shape
    (True, (1, 2, 1))
    """

    importance: Importance
    _: KW_ONLY
    model: str
    name: str | ExplainerName
    parts: tuple[str, ...] = ()
    tag: ClassVar = "global-importance"
    part: ClassVar = RowPart.POPULATION

    def prepare(self) -> None:
        if isinstance(self.parts, str) or len(set(self.parts)) != len(tuple(self.parts)):
            raise InvalidInput(f"parts are different names, found {self.parts!r}")
        object.__setattr__(self, "parts", tuple(self.parts))
        check_bounds(self.sensitivity(1), self.protected)
        self._event  # noqa: B018  # whatever is wrong with the settings is said now

    @property
    def identity_parts(self) -> tuple[str, str, str]:
        return self.model, f"mean absolute {ExplainerName.read(self.name).words}", self.level

    @property
    def settings_v1(self) -> dict[str, object]:
        return {
            "by": self.importance.identity_v1,
            "conditions": list(self.sensitivity(1).conditions),
            "delta": self.delta,
            "epsilon": self.epsilon,
            "groups": self.importance.teams,
            "origins": origins_v1(self.origins),
            "output names": list(self.importance.output_names),
            "outputs": outputs_v1(self.importance.outputs),
            "parts": list(self.parts),
            "population": self.protected.dataset,
            "relation": self.protected.relation,
            "schema": self.importance.schema.digest,
        }

    @property
    def settings(self) -> dict[str, object]:
        return {
            "delta": self.delta,
            "epsilon": self.epsilon,
            "explainer": ExplainerName.read(self.name).tag,
            "groups": self.importance.teams,
            "origins": origins_identity(self.origins),
            "output_names": list(self.importance.output_names),
            "outputs": outputs_identity(self.importance.outputs),
            "over": self.importance.identity,
            "parts": list(self.parts),
            "population": self.protected.dataset,
            "relation": str(self.protected.relation),
            "schema": self.importance.schema.digest,
        }

    def sensitivity(self, rows: int) -> Sensitivity:
        """Of the mean over a population, or a part of it, of this many records; with rounding."""
        exact = self.importance.sensitivity(positive("rows", rows), self.protected.relation)
        return exact.scaled(1 + ROUNDING * rows)

    def noise(self, rows: int) -> GaussianMechanism:
        """For a population, or a part of it, of this many records."""
        shape = (len(self.importance.players), len(self.importance.output_names))
        return _calibrated(self.sensitivity(rows), self.epsilon, self.delta, shape)

    @cached_property
    def _event(self) -> events.Gaussian:
        """The same for every number of records: noise and sensitivity shrink together.

        All but for the sampler's grid, whose share is below the margin.
        """
        return events.Gaussian(self.noise(1).event().noise_multiplier * (1 - MARGIN))

    def cost(self, rows: int) -> events.PrivacyEvent:
        positive("rows", rows)
        return events.Parallel((self._event,) * len(self.parts)) if self.parts else self._event

    def noise_guarantee(self, rows: int) -> Guarantee:
        conditions = self.sensitivity(rows).conditions
        return self.promise(
            mechanism="Gaussian noise on mean absolute attributions",
            composition="parallel over the parts" if self.parts else "one release",
            public_facts=("schema", "model and explainer", "number of records", *self._in_parts),
            assumptions=(*conditions, MODEL_OUTPUT_UNPUBLISHED, *(_PARTS if self.parts else ())),
        )

    @property
    def _in_parts(self) -> tuple[str, ...]:
        return (f"parts: {', '.join(self.parts)}",) if self.parts else ()

    def accuracy(self, rows: int) -> Accuracy:
        """With noise for a population, or a part of it, of this many records."""
        noise = self.noise(rows)
        width = half_width(noise.sigma, NO_SAMPLING)
        return Accuracy(str(noise.preview()), noise.sigma, width, self.importance.remarks)

    def means(self, rows: Any) -> list[NDArray[np.float64]]:
        """What noise is put on: the mean of each part. For the custodian, never for release."""
        return [_mean_absolute(self.importance.vectors(records)) for records in self._read(rows)]

    def draw(self, rows: Any) -> Explanation:
        read = self._read(rows)
        noises = [self.noise(len(records)) for records in read]
        noisy = np.stack(
            [
                noise.randomise(_mean_absolute(self.importance.vectors(records)))
                for noise, records in zip(noises, read, strict=True)
            ]
        )
        sigma = np.array([noise.sigma for noise in noises])[:, np.newaxis, np.newaxis]
        width = half_width(1.0, NO_SAMPLING)
        return Explanation(
            values=noisy,
            base_values=self.importance.base,
            feature_names=self.importance.players,
            output_names=self.importance.output_names,
            standard_errors=np.broadcast_to(sigma, noisy.shape),
            half_widths=np.broadcast_to(width * sigma, noisy.shape),
            guarantees=self.guarantees(sum(len(records) for records in read)),
            notes=self.notes(KnownNote.ABSOLUTE, *self._in_parts, *self.importance.notes),
        )

    def _read(self, rows: Any) -> list[Records]:
        if not self.parts:
            return [Records.read(rows, self.importance.schema, "the population")]
        if not hasattr(rows, "keys") or set(rows.keys()) != set(self.parts):
            raise InvalidInput(f"expected the records of each part by name: {list(self.parts)}")
        return [
            Records.read(rows[part], self.importance.schema, f"part {part!r}")
            for part in self.parts
        ]


def _mean_absolute(vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    """Over the records; sums are rounded once, however many records there are."""
    flat = np.abs(vectors).reshape(len(vectors), -1)
    return means_of(flat).reshape(vectors.shape[1:])


@lru_cache(maxsize=256)
def _calibrated(
    sensitivity: Sensitivity, epsilon: float, delta: float, shape: tuple[int, ...]
) -> GaussianMechanism:
    return GaussianMechanism.calibrated(sensitivity, epsilon=epsilon, delta=delta, shape=shape)
