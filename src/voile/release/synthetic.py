"""A synthetic background: paid for once, then free for ever.

One histogram of each feature, with discrete Gaussian noise on the counts, is published; rows are
drawn from the histograms, each feature by itself. All that is computed from such rows is
post-processing (`PostProcessed`). What is lost: how features depend on each other.
"""

from __future__ import annotations

import io
import math
from dataclasses import KW_ONLY, dataclass, field
from functools import cached_property
from typing import Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from voile.core.guarantee import Guarantee, Relation, RowPart
from voile.core.input_file import damaged
from voile.core.schema import Categories, Domain, FeatureValues, Numbers, Rows, Schema
from voile.privacy.accounting.conversion import zcdp_budget, zcdp_to_epsilon
from voile.privacy.events import Zcdp
from voile.privacy.mechanisms import DiscreteGaussian, GaussianMechanism
from voile.privacy.mechanisms.parameters import checked_target
from voile.privacy.sensitivity import Norm, OutputSet, Sensitivity, histogram, shapley_background
from voile.privacy.sensitivity.bound import check_bounds, positive
from voile.release.charged import STORED, Accuracy, ArtefactRelease, OneTimeArtefact
from voile.release.contract import Codec
from voile.release.origin import Origin, trained_privately
from voile.release.records import Records

BINS: Final = 16
"""Cells of a feature with bounds; whole numbers have a cell each if that is fewer."""
_CELLS: Final = "which values fall into which cell of a histogram: equal parts of the bounds"


@dataclass(frozen=True, eq=False)
class SyntheticBackground(OneTimeArtefact):
    """Rows that anybody may see, and what was promised about the records they were made from.

    Args (in addition to those of `OneTimeArtefact`):
        rows: synthetic, inside the schema.
        histograms: the published counts with noise, one array for each feature.
        guarantee: what publishing them promises.

    >>> from voile.core.guarantee import Protected
    >>> from voile.core.schema import Feature
    >>> schema = Schema("t", (Feature("age", Numbers(0, 1)),))
    >>> made = PrivateHistograms(
    ...     np.full((500, 1), 0.5), schema=schema, size=20, epsilon=1.0, delta=1e-6,
    ...     protected=Protected("row", "blank one", "patients")).draw()
    >>> made.rows.shape, [len(counts) for counts in made.histograms]
    ((20, 1), [16])
    >>> made.origin  # not paid yet
    Traceback (most recent call last):
    voile.core.errors.Refused: ...
    """

    rows: Rows
    histograms: tuple[NDArray[np.int64], ...]
    guarantee: Guarantee
    what: ClassVar = "rows"
    paid_with: ClassVar = "app.explain.paid_synthetic_background"

    @property
    def origin(self) -> Origin:
        """Refused for rows that were not paid for: what is made from them would pass as free."""
        self.check_paid()
        return trained_privately(self.guarantee)


@dataclass(frozen=True, eq=False)
class PrivateHistograms(ArtefactRelease):
    """Noisy histograms of protected records, and rows drawn from them: a `SyntheticBackground`.

    Guarantees
        1. (epsilon, delta) for each record, once, for all histograms together.
        2. Nothing is divided by the number of records: under "add or remove one" it is private.

    Args (in addition to those of `ArtefactRelease`):
        protected: a row of their data set, under any relation.
        epsilon, delta: of the publication, once.
        size: how many rows are drawn; costs nothing.
        bins: cells of a feature with bounds.
        seed: of the draw from the published histograms, which is post-processing.

    >>> from voile.core.guarantee import Protected
    >>> from voile.core.schema import Feature
    >>> schema = Schema("t", (Feature("age", Numbers(0, 1)),))
    >>> release = PrivateHistograms(
    ...     np.full((500, 1), 0.5), schema=schema, epsilon=1.0, delta=1e-6,
    ...     protected=Protected("row", "blank one", "patients"))
    >>> release.guarantees(1)[0].epsilon <= 1.0, release.draw().rows.shape
    (True, (1000, 1))
    """

    _: KW_ONLY
    size: int = 1_000
    bins: int = BINS
    seed: int | None = None
    _noise: DiscreteGaussian = field(init=False, repr=False)
    part: ClassVar = RowPart.BACKGROUND
    tag: ClassVar = "synthetic-background"
    name: ClassVar = "synthetic background"

    def prepare(self) -> None:
        positive("size", self.size)
        epsilon, delta = checked_target(self.epsilon, self.delta, pure=False)
        sensitivity = histograms_sensitivity(len(self.cells), self.protected.relation)
        check_bounds(sensitivity, self.protected)
        sigma = sensitivity.value / math.sqrt(2 * zcdp_budget(epsilon, delta)) * (1 + 1e-9)
        shape = (sum(self.cells),)
        noise = DiscreteGaussian(sigma=sigma, sensitivity=sensitivity, shape=shape)
        object.__setattr__(self, "_noise", noise)
        object.__setattr__(self, "_read", Records.read_any(self.records, self.schema))

    @cached_property
    def cells(self) -> list[int]:
        """Of each feature's histogram."""
        return [cell_count(feature.domain, self.bins) for feature in self.schema.features]

    @property
    def settings_v1(self) -> dict[str, object]:
        return {
            "bins": self.bins,
            "delta": self.delta,
            "epsilon": self.epsilon,
            "rows": self.public_size,
            "size": self.size,
        }

    def cost(self, rows: int) -> Zcdp:
        positive("rows", rows)
        return self._noise.event()

    def noise_guarantee(self, rows: int) -> Guarantee:
        return self.promise(
            epsilon=zcdp_to_epsilon(self.cost(rows).rho, self.delta),
            mechanism=f"discrete Gaussian noise of standard deviation {self._noise.sigma:.6g} on "
            f"histograms of {len(self.cells)} features",
            composition="all histograms together, by zero-concentrated differential privacy",
            public_facts=("schema", _CELLS),
            assumptions=(*self._noise.sensitivity.conditions, "running time is not observed"),
        )

    def accuracy(self, rows: int) -> Accuracy:  # noqa: ARG002
        return Accuracy.from_noise(self._noise.preview(), "values are counts of records in a cell")

    def draw(self, rows: Any = None) -> SyntheticBackground:  # noqa: ARG002
        noisy = self._noise.randomise(np.concatenate(_counts(self._read, self.schema, self.cells)))
        published = tuple(np.split(noisy, np.cumsum(self.cells)[:-1]))
        draw = np.random.default_rng(self.seed)
        columns = [
            _values(feature.domain, counts, self.size, draw)
            for feature, counts in zip(self.schema.features, published, strict=True)
        ]
        return self._made(self.schema.clamp(np.column_stack(columns)), published)

    def _made(self, rows: Rows, histograms: tuple[NDArray[np.int64], ...]) -> SyntheticBackground:
        (guarantee,) = self.guarantees(1)
        return SyntheticBackground(rows, histograms, guarantee, event=self.cost(1))

    @property
    def codec(self) -> Codec[SyntheticBackground]:
        """Arrays one after the other, in numpy's own format."""
        return Codec(_pack, self._unpack)

    def _unpack(self, content: bytes) -> SyntheticBackground:
        expected = [(self.size, len(self.cells)), *((count,) for count in self.cells)]
        buffer = io.BytesIO(content)
        with damaged(STORED):
            rows, *histograms = (
                np.lib.format.read_array(buffer, allow_pickle=False) for _ in expected
            )
            if [rows.shape, *(counts.shape for counts in histograms)] != expected:
                raise ValueError(f"expected arrays of shapes {expected}")
            return self._made(rows, tuple(histograms))


def _pack(made: SyntheticBackground) -> bytes:
    buffer = io.BytesIO()
    for array in (made.rows, *made.histograms):
        np.lib.format.write_array(buffer, array, allow_pickle=False)
    return buffer.getvalue()


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
        f"for more than about {count:,} explanations, a synthetic background is cheaper: paid for "
        "once, no less precise on average if features are independent, then free "
        "(voile.app.explain.paid_synthetic_background)"
    )
