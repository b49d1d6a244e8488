"""How much a model looks at each feature: mean absolute Shapley values, as shares.

All parties compare their models on the same public rows, so the inputs that have to be evaluated
are the same for all of them, and are made once: chains of coalitions (random orders and their
reverses) between each row and some of the others. A model's importance is then one pass over them.

Over public rows this is post-processing of the model. Over a party's own rows it is a release of
its own: each row's vector of absolute values is clipped to norm B (no Shapley vector of outputs in
[0, 1] is longer), so the mean over n declared rows has sensitivity B/n if a record is blanked, and
√2·B/n if it is replaced (absolute values are never negative). For that, no record may have a say in
the vector of another one: orders and background rows follow from a record's place and from the
public number of places, so a null record keeps its place and counts zero.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from voile.attribution.fastshap.encoding import Encoding
from voile.core.errors import InvalidInput
from voile.core.guarantee import Relation
from voile.core.schema import Rows, Schema
from voile.evaluation import importance_shares
from voile.evaluation.measures import SMOOTHING
from voile.pipelines.tables import NetworkModel
from voile.privacy.events import Composed, Gaussian, PrivacyEvent
from voile.privacy.mechanisms import GaussianMechanism
from voile.privacy.sensitivity import Norm, Sensitivity, clipped_mean, mean_absolute_shapley
from voile.privacy.sensitivity.shapley import shapley_norm

MOST_ROWS: Final = 64
"""Public rows that are looked at; more change shares by less than parties differ."""
_ORDERS: Final = 8


@dataclass(frozen=True, eq=False)
class ImportanceDesign:
    """What a model is asked to say how much it looks at each feature.

    Args:
        schema: what rows look like.
        rows: explained, (n, d).
        background: what absent features are taken from, (m, d).
        orders: random orders of the features for each row, each walked both ways, against a
            background row of its own.
    """

    schema: Schema
    rows: Rows
    background: Rows
    orders: int = _ORDERS

    @classmethod
    def from_rows(cls, schema: Schema, rows: Rows) -> ImportanceDesign:
        """Public rows, each against the others."""
        if len(rows) < 2:
            raise InvalidInput(f"expected at least two rows to compare with, found {len(rows)}")
        shown = np.asarray(rows, dtype=np.float64)[:MOST_ROWS]
        return cls(schema, shown, shown)

    @cached_property
    def _drawn(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Ranks of features and places of background rows; from a public seed."""
        count, width = self.rows.shape
        draw = np.random.default_rng([0, count, width, self.orders])
        shape = (self.orders, count, width)
        ranks = draw.permuted(np.broadcast_to(np.arange(width), shape), axis=2)
        shifts = 1 + np.arange(self.orders) * max(1, len(self.background) // self.orders)
        places = (np.arange(count) + shifts[:, np.newaxis]) % len(self.background)
        both = np.concatenate([ranks, width - 1 - ranks])
        return both, np.concatenate([places, places])

    @cached_property
    def columns(self) -> NDArray[np.float32]:
        """All inputs, encoded: (2·orders, rows, features + 1, columns)."""
        ranks, places = self._drawn
        encoding = Encoding.around_defaults(self.schema)
        own, other = encoding.columns(self.rows), encoding.columns(self.background)[places]
        steps = np.arange(self.rows.shape[1] + 1)[:, np.newaxis]
        present = ranks[:, :, np.newaxis, :] < steps
        return np.where(present[..., encoding.feature], own[:, np.newaxis], other[:, :, np.newaxis])

    def values(self, model: NetworkModel) -> NDArray[np.float64]:
        """Estimated Shapley values of the outputs, (rows, features, outputs)."""
        shape = self.columns.shape
        said = model.of_columns(self.columns.reshape(-1, shape[-1])).astype(np.float64)
        walked = np.diff(said.reshape(*shape[:-1], -1), axis=2)
        in_place = np.take_along_axis(walked, self._drawn[0][..., np.newaxis], axis=2)
        return np.asarray(in_place.mean(axis=0))

    def strengths(self, model: NetworkModel) -> NDArray[np.float64]:
        """Mean absolute values of each feature, over outputs too; (features,)."""
        return np.asarray(np.abs(self.values(model)).mean(axis=(0, 2)))


def shares_of(strengths: NDArray[np.float64]) -> NDArray[np.float64]:
    """P of FedXChain (III-C): strengths as shares, smoothed by 1e-10."""
    return importance_shares(np.abs(strengths)[np.newaxis] + SMOOTHING)


@dataclass(frozen=True)
class OverOwnRows:
    """Importance and accuracy over a party's own rows, noised in full by the party itself.

    Args:
        importance, accuracy: noise of each, in sensitivities.
    """

    importance: float
    accuracy: float

    @property
    def event(self) -> PrivacyEvent:
        return Composed((Gaussian(self.importance), Gaussian(self.accuracy)))

    def noised(
        self,
        design: ImportanceDesign,
        model: NetworkModel,
        right: NDArray[np.bool_],
        null: NDArray[np.bool_],
        size: int,
        relation: Relation,
    ) -> tuple[NDArray[np.float64], float]:
        """Noisy strengths and accuracy, cut to what they can be; exact samplers.

        Args:
            design: over all of the party's own rows, each at its place.
            right: which of them the model gets right.
            null: which of them are null records; they add nothing.
            size: as declared; divides both sums.
        """
        width = design.rows.shape[1]
        length = shapley_norm(features=width, output_width=1.0)
        vectors = np.abs(design.values(model)[:, :, -1])
        # Where the model overflows depends on protected rows: nothing is raised, nothing added.
        vectors[null | ~np.isfinite(vectors).all(axis=1)] = 0
        total = clipped_lengths(vectors, length).sum(axis=0) / size
        strengths = mean_absolute_shapley(
            features=width, rows=size, output_width=1.0, relation=relation
        )
        counts = clipped_mean(bound=1.0, rows=size, norm=Norm.L2, relation=relation)
        noisy = _gaussian(self.importance, strengths, (width,)).randomise(total)
        counted = _gaussian(self.accuracy, counts, (1,)).randomise([(right & ~null).sum() / size])
        return np.maximum(noisy, 0.0), float(np.clip(counted[0], 0.0, 1.0))


def clipped_lengths(vectors: NDArray[np.float64], length: float) -> NDArray[np.float64]:
    """Each vector, made shorter where it is longer."""
    over = np.maximum(np.linalg.norm(vectors, axis=1) / length, 1.0)
    return np.asarray(vectors / over[:, np.newaxis])


def _gaussian(
    multiplier: float, sensitivity: Sensitivity, shape: tuple[int, ...]
) -> GaussianMechanism:
    """A little more noise than is charged: what rounding to the sampler's grid costs."""
    sigma = multiplier * sensitivity.value * (1 + 1e-9)
    found = GaussianMechanism(sigma=sigma, sensitivity=sensitivity, shape=shape)
    assert found.event().noise_multiplier >= multiplier
    return found
