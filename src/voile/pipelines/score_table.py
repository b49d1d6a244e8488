"""A charged table of a network's scores by class: it calibrates the network, and says how good.

A network that was trained with noise is too sure of itself. Rows are counted by class in bins of
its score; noise is added to the counts. Slope and intercept of the calibrated log-odds follow from
the noisy counts at no further cost, and so do log-loss and AUC.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from voile.core import array_file
from voile.core.errors import InvalidInput, Refused
from voile.core.guarantee import Guarantee, RowPart
from voile.core.input_file import damaged
from voile.core.schema.schema import draw_rows
from voile.pipelines.calibration import Calibration
from voile.pipelines.table_network import (
    PAID_WITH,
    PUBLIC_FACTS,
    NetworkParameters,
    TableNetworkPlan,
)
from voile.pipelines.tables import NetworkModel, TableRecords
from voile.privacy.accounting.conversion import zcdp_to_epsilon
from voile.privacy.events import Zcdp
from voile.privacy.mechanisms import DiscreteGaussian
from voile.privacy.mechanisms.parameters import MARGIN, NoisePreview
from voile.privacy.sensitivity.bound import positive
from voile.privacy.sensitivity.statistics import cell_tables
from voile.release.charged import STORED, Accuracy, ChargedRelease, OneTimeArtefact
from voile.release.contract import Codec
from voile.release.statistics.calibrating import SlopeCurve

_KIND: Final = "voile score table"
BINS: Final = 12
_REACH: Final = 2.5
"""Of the edges, in deviations of the score over invented rows."""
_INVENTED: Final = 2_000
_LEAST_DEVIATION: Final = 0.05
_SLOPES: Final = np.geomspace(0.02, 2.0, 400)
_MEDIAN_SLOPE: Final = 0.2
_SLOPE_SPREAD: Final = 0.8
"""Of its logarithm: networks of 160 noisy steps were too sure by a factor of two to ten."""
_LEAST_RATE: Final = 0.01

Counts = NDArray[np.int64]
"""Shape (bins, 2): rows of each class in each bin of the score."""


@dataclass(frozen=True, eq=False)
class ScoreTable(OneTimeArtefact):
    """Noisy counts of score bins by class.

    Args: besides those of `OneTimeArtefact`:
        counts: of each bin and class.

    >>> ScoreTable(np.array([[90, 11], [12, 88]]), event=None).counts.sum()
    np.int64(201)
    """

    counts: Counts
    what: ClassVar = "tables"
    paid_with: ClassVar = PAID_WITH


@dataclass(frozen=True, eq=False)
class ScoreBins:
    """Bins of the score of a network of two classes: the difference of its logits.

    Edges follow from the network and from rows invented from the schema; nothing is looked at.

    Args:
        model: trained with privacy, before calibration.
    """

    model: NetworkModel

    @cached_property
    def edges(self) -> NDArray[np.float64]:
        schema = self.model.schema
        rows = draw_rows(schema, _INVENTED, np.random.default_rng(0))
        nobody = np.zeros(len(rows))
        scores = self.scores(TableRecords(schema, rows, nobody, nobody.astype(np.bool_)))
        steps = np.linspace(-_REACH, _REACH, BINS - 1)
        found: NDArray[np.float64] = scores.mean() + steps * max(scores.std(), _LEAST_DEVIATION)
        return found

    @cached_property
    def middles(self) -> NDArray[np.float64]:
        edges, half = self.edges, (self.edges[1] - self.edges[0]) / 2
        found: NDArray[np.float64] = np.append(edges - half, edges[-1] + half)
        return found

    def scores(self, records: TableRecords) -> NDArray[np.float64]:
        """Of each record; NaN for a null record."""
        logits = np.asarray(self.model.network(records.columns), np.float64)
        found: NDArray[np.float64] = logits[:, 1] - logits[:, 0]
        return found

    def counts(self, records: TableRecords) -> Counts:
        """Exact, of records with a label that are not null."""
        counted = ~records.null & ~np.isnan(records.labels)
        places = np.searchsorted(self.edges, self.scores(records)[counted])
        table = np.zeros((BINS, 2), dtype=np.int64)
        np.add.at(table, (places, records.labels[counted].astype(int)), 1)
        return table


@dataclass(frozen=True, eq=False)
class PrivateScoreTable(ChargedRelease):
    """How many rows of each class lie in each bin of a network's score.

    Guarantees
        1. One row moves the counts by 1 at most (zero-out), or √2 (replace one).
        2. Bins depend on the released network alone. No row makes `draw` raise.

    Args (in addition to those of `ChargedRelease`):
        records: protected.
        plan: of the network.
        network: paid for.
    """

    records: TableRecords = field(repr=False)
    plan: TableNetworkPlan
    network: NetworkParameters = field(repr=False)
    epsilon: float = field(init=False)
    tag: ClassVar = "table-network-scores"
    name: ClassVar = "score table"
    part: ClassVar = RowPart.TRAINING

    def prepare(self) -> None:
        self.network.check_paid()
        if not self.plan.has_score_table:
            raise InvalidInput("a score table needs a label of two classes")
        if self.protected != self.plan.protected or len(self.records) != self.plan.rows:
            raise Refused("a score table is about the rows that the network learned from")
        if self.noise.event().rho > self.plan.score_rho:
            raise InvalidInput("the noise costs more than its share of the budget")
        object.__setattr__(self, "epsilon", zcdp_to_epsilon(self.plan.score_rho, self.delta))

    @cached_property
    def noise(self) -> DiscreteGaussian:
        return score_noise(self.plan)

    @cached_property
    def bins(self) -> ScoreBins:
        return ScoreBins(self.plan.model(self.network.arrays))

    @property
    def identity_parts(self) -> tuple[str, str, str]:
        return self.plan.schema.digest, self.name, self.name

    @property
    def settings_v1(self) -> dict[str, object]:
        made_from = {"network": self.network.digest, "network_charge": self.network.charge}
        return {"delta": self.delta, "bins": BINS, **made_from, **self.plan.settings}

    def cost(self, rows: int) -> Zcdp:
        positive("rows", rows)
        return Zcdp(self.plan.score_rho)

    def noise_guarantee(self, rows: int) -> Guarantee:  # noqa: ARG002
        return self.promise(
            mechanism=f"discrete Gaussian noise of standard deviation {self.noise.sigma:.6g} on "
            f"a {self.name}",
            composition="one release, by zero-concentrated differential privacy",
            public_facts=PUBLIC_FACTS,
            assumptions=(*self.noise.sensitivity.conditions, "running time is not observed"),
        )

    def accuracy(self, rows: int) -> Accuracy:  # noqa: ARG002
        sigma = self.noise.sigma
        return Accuracy.from_noise(NoisePreview(sigma, 1.959964 * sigma, 2.326174 * sigma))

    def draw(self, rows: Any = None) -> ScoreTable:  # noqa: ARG002
        noisy = self.noise.randomise(self.bins.counts(self.records))
        return ScoreTable(noisy, event=self.cost(1))

    @property
    def codec(self) -> Codec[ScoreTable]:
        return Codec(lambda made: array_file.pack(_KIND, {"counts": made.counts}, {}), self._unpack)

    def _unpack(self, content: bytes) -> ScoreTable:
        return ScoreTable(stored_counts(content), event=self.cost(1))


def stored_counts(content: bytes) -> Counts:
    """What a ledger keeps of such a release."""
    arrays, _ = array_file.unpack(content, STORED, _KIND)
    with damaged(STORED):
        counts = arrays["counts"]
        if counts.shape != (BINS, 2) or counts.dtype != np.int64:
            raise ValueError("expected whole numbers, two for each bin")
        return counts


def score_noise(plan: TableNetworkPlan) -> DiscreteGaussian:
    """For the share of a plan's budget that is the table's."""
    sensitivity = cell_tables(tables=1, relation=plan.protected.relation)
    sigma = sensitivity.value / math.sqrt(2 * plan.score_rho) * (1 + MARGIN)
    return DiscreteGaussian(sigma=sigma, sensitivity=sensitivity, shape=(BINS, 2))


@dataclass(frozen=True, eq=False)
class ScoreCalibration:
    """Slope and intercept of calibrated log-odds from a noisy table: post-processing.

    Args:
        plan: of the network.
        bins: of its score.
        counts: noisy.

    >>> from voile.core.guarantee import Protected
    >>> from voile.datasets.clinic import SCHEMA
    >>> about = Protected("row", "blank one", "patients")
    >>> plan = TableNetworkPlan(schema=SCHEMA, rows=8000, protected=about, rho=0.1)
    >>> bins = ScoreBins(plan.model(plan.task.start(0)))
    >>> sure = np.column_stack([np.arange(BINS)[::-1], np.arange(BINS)]) * 60
    >>> ScoreCalibration(plan, bins, sure).rate
    0.5
    """

    plan: TableNetworkPlan
    bins: ScoreBins
    counts: Counts

    @property
    def deviation(self) -> float:
        """Of the noise on a count."""
        return score_noise(self.plan).sigma

    @cached_property
    def rate(self) -> float:
        """The share of the second class."""
        total = max(float(self.counts.sum()), self.plan.rows / 2)
        rate = float(self.counts[:, 1].sum()) / total
        return float(np.clip(rate, _LEAST_RATE, 1 - _LEAST_RATE))

    @cached_property
    def slope(self) -> float:
        """Its posterior mean on a logarithmic scale: few noisy counts cannot tell it alone."""
        rows, curve = self.plan.rows, self._curve
        expected, sampling = curve.moments(_SLOPES)
        # Σ y·(x − x̄)/n, with the sums over both classes taken from the shares: half the noise.
        ones = (self.counts[:, 1] - self.counts[:, 0] + rows * self._shares) / 2
        seen = float(ones @ curve.centred) / rows
        noise = self.deviation**2 / 2 * float(curve.centred @ curve.centred) / rows**2
        variance = noise + sampling / rows
        prior = np.log(_SLOPES / _MEDIAN_SLOPE) / _SLOPE_SPREAD
        weights = -0.5 * ((seen - expected) ** 2 / variance + np.log(variance) + prior**2)
        weights = np.exp(weights - weights.max())
        return math.exp(float(weights @ np.log(_SLOPES)) / float(weights.sum()))

    @cached_property
    def intercept(self) -> float:
        """It keeps the rate."""
        return float(self._curve.intercepts(np.array([self.slope]))[0])

    @property
    def chances(self) -> NDArray[np.float64]:
        """Of the second class in each bin, as the calibrated network states it."""
        from scipy.special import expit

        found: NDArray[np.float64] = expit(self.intercept + self.slope * self.bins.middles)
        return found

    @property
    def calibration(self) -> Calibration:
        """As it is folded into the last layer; the intercept is shared out between both logits."""
        half = self.intercept / 2
        return Calibration(self.slope, (-half, half), 0, _MEDIAN_SLOPE)

    @cached_property
    def _shares(self) -> NDArray[np.float64]:
        counts = np.maximum(self.counts.sum(axis=1), 0.0)
        even = np.full(BINS, 1 / BINS)
        found: NDArray[np.float64] = counts / counts.sum() if counts.any() else even
        return found

    @property
    def _curve(self) -> SlopeCurve:
        return SlopeCurve(self._shares, self.bins.middles, self.rate)
