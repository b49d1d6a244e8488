"""A synthetic background: paid for once, then free for ever.

One histogram of each feature, with discrete Gaussian noise on the counts, is published; rows are
drawn from the histograms, each feature by itself. All that is computed from such rows is
post-processing (`PostProcessed`). What is lost: how features depend on each other.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from voile.core.errors import Refused
from voile.core.guarantee import Adversary, Guarantee, Protected, Relation
from voile.core.schema import Categories, Domain, FeatureValues, Numbers, Rows, Schema
from voile.privacy.accounting.conversion import zcdp_budget, zcdp_to_epsilon
from voile.privacy.events import Zcdp
from voile.privacy.mechanisms import DiscreteGaussian, GaussianMechanism
from voile.privacy.mechanisms.parameters import checked_target
from voile.privacy.sensitivity import Norm, OutputSet, Sensitivity, histogram, shapley_background
from voile.privacy.sensitivity.bound import check_bounds, positive
from voile.release.origin import Origin, trained_privately
from voile.release.records import Records

BINS: Final = 16
"""Cells of a feature with bounds; whole numbers have a cell each if that is fewer."""
_CELLS: Final = "which values fall into which cell of a histogram: equal parts of the bounds"


@dataclass(frozen=True, eq=False)
class SyntheticBackground:
    """Rows that anybody may see, and what was promised about the records they were made from.

    Args:
        rows: synthetic, inside the schema.
        histograms: the published counts with noise, one array for each feature.
        event: what publishing them costs, once.
        guarantee: what it promises.
        charge: the ledger's name for the charge that paid for `event`
            (`voile.workflows.explain.paid_synthetic_background` sets it).
    """

    rows: Rows
    histograms: tuple[NDArray[np.int64], ...]
    event: Zcdp
    guarantee: Guarantee
    charge: str | None = None

    @property
    def origin(self) -> Origin:
        """Refused for rows that nobody paid for: what is made from them would pass as free."""
        if not self.charge:
            raise Refused(
                "these rows were made from protected records and nobody was charged for them: "
                "voile.workflows.explain.paid_synthetic_background makes and charges them"
            )
        return trained_privately(self.guarantee)


def synthetic_background(
    records: Any,
    schema: Schema,
    *,
    protected: Protected,
    epsilon: float,
    delta: float,
    size: int = 1_000,
    bins: int = BINS,
    seed: int | None = None,
) -> SyntheticBackground:
    """Noisy histograms of protected records, and rows drawn from them.

    Nothing is charged here, so no release takes them yet: `paid_synthetic_background` of
    `voile.workflows.explain` does both.

    Args:
        records: a table or an array.
        schema: what is public about them.
        protected: a row of their data set, under any relation: nothing is divided by their number.
        epsilon, delta: of the publication, once.
        size: how many rows are drawn; costs nothing.
        bins: cells of a feature with bounds.
        seed: of the draw from the published histograms, which is post-processing.
    """
    epsilon, delta = checked_target(epsilon, delta, pure=False)
    cells = [cell_count(feature.domain, bins) for feature in schema.features]
    sensitivity = histograms_sensitivity(len(cells), protected.relation)
    check_bounds(sensitivity, protected)
    sigma = sensitivity.value / math.sqrt(2 * zcdp_budget(epsilon, delta)) * (1 + 1e-9)
    mechanism = DiscreteGaussian(sigma=sigma, sensitivity=sensitivity, shape=(sum(cells),))
    found = Records.read_any(records, schema)
    noisy = mechanism.randomise(np.concatenate(_counts(found, schema, cells)))
    published = tuple(np.split(noisy, np.cumsum(cells)[:-1]))
    event = mechanism.event()
    guarantee = Guarantee(
        epsilon=zcdp_to_epsilon(event.rho, delta),
        delta=delta,
        protected=protected,
        against=(Adversary.PUBLIC,),
        computational=False,
        mechanism=f"discrete Gaussian noise of standard deviation {sigma:.6g} on histograms of "
        f"{len(cells)} features",
        composition="all histograms together, by zero-concentrated differential privacy",
        public_facts=("schema", _CELLS),
        assumptions=(*sensitivity.conditions, "running time is not observed"),
    )
    draw = np.random.default_rng(seed)
    columns = [
        _values(feature.domain, counts, positive("size", size), draw)
        for feature, counts in zip(schema.features, published, strict=True)
    ]
    rows = schema.clamp(np.column_stack(columns))
    return SyntheticBackground(rows, published, event, guarantee)


def histograms_sensitivity(features: int, relation: Relation) -> Sensitivity:
    """Of one histogram for each feature, all together."""
    return histogram(norm=Norm.L2, relation=relation).stacked(features)


def cell_count(domain: Domain, bins: int) -> int:
    positive("bins", bins)
    if isinstance(domain, Categories):
        return len(domain.values)
    if isinstance(domain, Numbers) and domain.whole:
        return min(bins, int(domain.upper - domain.lower) + 1)
    return bins


def _counts(records: Records, schema: Schema, cells: list[int]) -> list[NDArray[np.int64]]:
    """A null record falls into no cell."""
    rows = records.rows[~records.blank]
    return [
        np.bincount(_cells(feature.domain, rows[:, place], count), minlength=count)
        for place, (feature, count) in enumerate(zip(schema.features, cells, strict=True))
    ]


def _cells(domain: Domain, values: FeatureValues, count: int) -> NDArray[np.intp]:
    if isinstance(domain, Numbers):
        share = (values - domain.lower) / _width(domain)
        values = np.minimum(np.floor(share * count), count - 1)
    return values.astype(np.intp)


def _width(domain: Numbers) -> float:
    """A whole number stands for the interval up to the next one."""
    return domain.upper - domain.lower + domain.whole


def _values(
    domain: Domain, counts: NDArray[np.int64], size: int, draw: np.random.Generator
) -> FeatureValues:
    """Values whose frequencies follow the counts as closely as a number of rows can, shuffled."""
    weights = np.maximum(counts, 0).astype(np.float64)
    weights = weights if weights.sum() > 0 else np.ones(len(counts))
    edges = np.concatenate([[0.0], np.cumsum(weights) / weights.sum()])
    level = (draw.permutation(size) + draw.random(size)) / size
    cell = np.clip(np.searchsorted(edges, level, side="right") - 1, 0, len(counts) - 1)
    if not isinstance(domain, Numbers):
        return cell.astype(np.float64)
    values: FeatureValues = domain.lower + (cell + draw.random(size)) * _width(domain) / len(counts)
    return np.floor(values) if domain.whole else values


def break_even(
    schema: Schema,
    *,
    rows: int,
    relation: Relation,
    noise: GaussianMechanism,
    outputs: OutputSet,
    players: int,
) -> str:
    """After how many explanations, at the latest, a synthetic background is cheaper, in words.

    Public facts only, and so the worst model. Noise of deviation s on all K cells moves the
    frequencies of the features, taken as independent, by at most K·s·√(2/π)/m in total variation on
    average (twice half of the sum, because the counts are scaled to one again), and Shapley values
    by at most S·R times that. The s at which this equals the length of the noise on one explanation
    has a cost; it is stated in explanations.
    """
    cells = sum(cell_count(feature.domain, BINS) for feature in schema.features)
    whole = shapley_background(
        features=players, background_rows=1, output_width=outputs, relation=Relation.REPLACE_ONE
    )
    length = math.sqrt(math.prod(noise.shape)) * noise.sigma
    deviation = length * rows / (whole.value * cells * math.sqrt(2 / math.pi))
    sensitivity = histograms_sensitivity(len(schema.features), relation).value
    once = (sensitivity / deviation) ** 2 / 2
    each = 1 / (2 * noise.event().noise_multiplier ** 2)
    count = math.ceil(once / each)
    return (
        f"a synthetic background of noisy histograms with at most as much error on average, for "
        f"features taken as independent, costs at most as much as {count:,} explanations and is "
        "free ever after (voile.release.synthetic_background)"
    )
