"""How a budget is divided among the three releases, from public facts alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final, Self

import numpy as np

from voile.core.errors import InvalidInput
from voile.core.guarantee import Relation
from voile.core.schema import Schema
from voile.privacy.accounting.conversion import zcdp_budget
from voile.privacy.events import Zcdp
from voile.privacy.mechanisms import DiscreteGaussian
from voile.privacy.mechanisms.discrete import GaussianBlocks
from voile.privacy.mechanisms.parameters import MARGIN, checked_target
from voile.privacy.sensitivity import Sensitivity
from voile.privacy.sensitivity.bound import positive
from voile.privacy.sensitivity.statistics import (
    cell_tables,
    centred_products,
    centred_sums,
    prediction_products,
)
from voile.release.statistics.cells import cut_edges, fine_edges
from voile.release.statistics.rule import RULE
from voile.release.statistics.targets import ClassTarget, Target, target_of

TABLES: Final = "fine tables"
MOMENTS: Final = "centred moments"
CALIBRATION: Final = "calibration table"
RELEASES: Final = (TABLES, MOMENTS, CALIBRATION)


@dataclass(frozen=True, kw_only=True)
class StatisticsBudget:
    """What all three releases may tell together, and how it is divided.

    >>> from voile.datasets.clinic import SCHEMA
    >>> budget = StatisticsBudget.within(
    ...     schema=SCHEMA, rows=8000, relation=Relation.BLANK_ONE, epsilon=2.0, delta=1e-5
    ... )
    >>> budget.bins, round(budget.signal)
    (12, 1075)

    Args:
        schema: with a label, classes or a number; public.
        rows: how many there are in all; public.
        relation: how neighbours differ: blank one or replace one.
        rho: of all three releases together (zero-concentrated differential privacy).
        parties: how many add up their rows, each with the whole noise of its own: then noise in
            the sum is √parties times as large. With noise in shares it is how many times as large
            the variance of all shares is, and no whole number.
        variances: the same for each of the three releases, where they were made and it is known
            who took part; for planning `parties` counts.
    """

    schema: Schema
    rows: int
    relation: Relation
    rho: float
    parties: float = 1
    variances: tuple[float, float, float] | None = None

    def __post_init__(self) -> None:
        positive("rows", self.rows)
        if not all(1 <= each < math.inf for each in (self.parties, *(self.variances or ()))):
            raise InvalidInput(f"noise is that of one party at least, found {self.parties}")
        _ = self.target
        if not (math.isfinite(self.rho) and self.rho > 0):
            raise InvalidInput(f"rho must be finite and above 0, found {self.rho}")
        _ = self.calibration_noise

    @classmethod
    def within(
        cls,
        *,
        schema: Schema,
        rows: int,
        relation: Relation,
        epsilon: float,
        delta: float,
        parties: float = 1,
    ) -> Self:
        """The least noise that an adaptive account of (epsilon, delta) grants (zCDP)."""
        epsilon, delta = checked_target(epsilon, delta, pure=False)
        rho = zcdp_budget(epsilon, delta) * (1 - MARGIN)
        return cls(schema=schema, rows=rows, relation=relation, rho=rho, parties=parties)

    @cached_property
    def target(self) -> Target:
        """What is learned: classes or a number, as the schema's label says."""
        return target_of(self.schema)

    # --- shares ---------------------------------------------------------------------------------

    @property
    def calibration_rho(self) -> float:
        return self.rho * RULE.split.calibration

    @property
    def tables_rho(self) -> float:
        """0 if every feature has public cut points: then there is no first release."""
        share = RULE.split.tables if self.table_places else 0.0
        return self.rho * (1 - RULE.split.calibration) * share

    @property
    def moments_rho(self) -> float:
        share = RULE.split.tables if self.table_places else 0.0
        return self.rho * (1 - RULE.split.calibration) * (1 - share)

    @property
    def rhos(self) -> dict[str, float]:
        """Of each release, in order; there are no fine tables if all features have cut points."""
        rhos = self.tables_rho, self.moments_rho, self.calibration_rho
        return {name: rho for name, rho in zip(RELEASES, rhos, strict=True) if rho}

    @property
    def events(self) -> tuple[Zcdp, ...]:
        """What the releases cost, in order."""
        return tuple(map(Zcdp, self.rhos.values()))

    # --- sizes ----------------------------------------------------------------------------------

    @property
    def signal(self) -> float:
        """How far rows stand out of the noise: what decides how many bins there are."""
        mu, features = math.sqrt(2 * self.rho), len(self.schema.features)
        sensitivity = cell_tables(tables=features, relation=self.relation)
        return self.rows * mu / (math.sqrt(self.parties) * sensitivity.value)

    @property
    def bins(self) -> int:
        """Of a number."""
        rule = RULE.bins
        return int(np.clip(round(rule.per_root * self.signal ** (1 / 3)), rule.least, rule.most))

    @property
    def growth(self) -> tuple[float, float, float]:
        """By which factor noise in the sum of each release is larger, as a deviation."""
        tables, moments, calibration = self.variances or (self.parties,) * 3
        return math.sqrt(tables), math.sqrt(moments), math.sqrt(calibration)

    @property
    def most_bins(self) -> tuple[int, ...]:
        """Of each feature at most, whatever tables are released."""
        number = max(self.bins, int(self.bins / RULE.tails.few) + RULE.tails.parts - 1)
        tables = {
            place: min(cells, self.level_bins + 1 if edges is None else number)
            for place, edges, cells in zip(
                self.table_places, self.fine_edges, self.fine_cells, strict=True
            )
        }
        return tuple(
            tables[place] if feature.cuts is None else len(cut_edges(feature)) + 1
            for place, feature in enumerate(self.schema.features)
        )

    @property
    def level_bins(self) -> int:
        """Of a category, at most."""
        return max(self.bins, min(RULE.bins.levels_most, 2 * self.bins))

    @cached_property
    def table_places(self) -> tuple[int, ...]:
        """Of the features that the first release is about: all without public cut points."""
        features = enumerate(self.schema.features)
        return tuple(place for place, feature in features if feature.cuts is None)

    @cached_property
    def fine_edges(self) -> tuple[tuple[float, ...] | None, ...]:
        """Of the fine cells of each feature of the first release; None for a category, whose
        levels are its cells."""
        rule, features = RULE.bins, self.schema.features
        count = int(np.clip(rule.fine_per_bin * self.bins, rule.fine_least, rule.fine_most))
        return tuple(fine_edges(features[place].domain, count) for place in self.table_places)

    @cached_property
    def fine_cells(self) -> tuple[int, ...]:
        """How many cells each table of the first release has, for each label cell."""
        features = self.schema.features
        return tuple(
            len(getattr(features[place].domain, "values", ())) if edges is None else len(edges) + 1
            for place, edges in zip(self.table_places, self.fine_edges, strict=True)
        )

    @property
    def is_wide(self) -> bool:
        """Whether the calibration table has bins on the long tail."""
        mu = math.sqrt(2 * self.calibration_rho)
        return self.rows * mu / math.sqrt(self.parties) >= RULE.calibration.wide_from

    @property
    def calibration_bins(self) -> int:
        """Of scores; of confidence for more than two classes."""
        if isinstance(self.target, ClassTarget) and self.target.count > 2:
            return RULE.target.confidence_bins
        return len(RULE.calibration.wide_edges) + 1 if self.is_wide else RULE.calibration.bins

    # --- noise, as one party adds it --------------------------------------------------------------

    @property
    def calibration_shape(self) -> tuple[int, ...]:
        """Of the third release: score bins and classes; confidence and the rank that the model
        gives to a row's class; two sums for a number."""
        if not isinstance(self.target, ClassTarget):
            return (2,)
        return self.calibration_bins, min(self.target.count, RULE.target.ranks)

    @property
    def tables_sensitivity(self) -> Sensitivity:
        """For counts of rows; a number adds its grid's steps in place of 1."""
        tables = max(len(self.table_places), 1)
        return cell_tables(tables=tables, relation=self.relation)

    @cached_property
    def tables_noise(self) -> DiscreteGaussian:
        """Of the first release, if there is one."""
        if not self.table_places:
            raise InvalidInput("every feature has cut points, so there are no fine tables")
        sensitivity = self.tables_sensitivity.scaled(self.target.unit)
        return DiscreteGaussian(
            sigma=_deviation(sensitivity, self.tables_rho),
            sensitivity=sensitivity,
            shape=(sum(self.fine_cells), self.target.columns),
        )

    @cached_property
    def calibration_noise(self) -> DiscreteGaussian:
        if isinstance(self.target, ClassTarget):
            sensitivity = cell_tables(tables=1, relation=self.relation)
        else:
            sensitivity = prediction_products(relation=self.relation).scaled(self.target.unit**2)
        return DiscreteGaussian(
            sigma=_deviation(sensitivity, self.calibration_rho),
            sensitivity=sensitivity,
            shape=self.calibration_shape,
        )

    def moments_noise(self, bins: Sequence[int], rates: float | Sequence[float]) -> MomentsNoise:
        """For features with so many bins, given the rates of the label cells that the tables show.

        Two classes may be given by the rate of the second. Without tables nothing is known of
        rates.
        """
        shares = (1 - rates, rates) if isinstance(rates, float) else tuple(rates)
        if not self.table_places:
            shares = ()
        return MomentsNoise.divided(
            tuple(bins), shares, self.relation, self.moments_rho, self.target
        )


@dataclass(frozen=True, kw_only=True)
class MomentsNoise:
    """Noise of the second release, by what it is added to. All figures are of sums over rows.

    Args:
        bins: of each feature in use.
        label_weight: the share of the squared sensitivity that sums with the label get.
        sums: sensitivity of the weighted sums.
        sums_deviation: of their noise.
        target: what the label is.
        products, products_deviation: of products of two features; None for fewer than two.
    """

    bins: tuple[int, ...]
    label_weight: float
    sums: Sensitivity
    sums_deviation: float
    target: Target
    products: Sensitivity | None = None
    products_deviation: float = 0.0

    @classmethod
    def divided(
        cls,
        bins: tuple[int, ...],
        rates: Sequence[float],
        relation: Relation,
        rho: float,
        target: Target,
    ) -> MomentsNoise:
        """By the frozen rule; whatever the bins are, the cost is `rho` at most."""
        rule = RULE.moments
        unknown = RULE.cuts.count_weight
        count_weight = max(_count_weight(rates), rule.count_weight_least) if rates else unknown
        weight = 1 - count_weight
        sums = centred_sums(
            bins=bins,
            label_weight=weight,
            relation=relation,
            classes=target.columns,
            square_weight=RULE.target.square_weight if target.is_number else 0.0,
        )
        known = cls(
            bins=bins,
            label_weight=weight,
            sums=sums,
            sums_deviation=_deviation(sums, rho),
            target=target,
        )
        if len(bins) < 2:
            return known
        products = centred_products(bins=bins, relation=relation)
        share = _gram_share(products.value / sums.value, target)
        return replace(
            known,
            sums_deviation=_deviation(sums, rho * (1 - share)),
            products=products,
            products_deviation=_deviation(products, rho * share),
        )

    @property
    def count_deviation(self) -> float:
        """Of noise on Σz, the centred counts."""
        return self.sums_deviation / math.sqrt(1 - self.label_weight)

    @property
    def label_deviation(self) -> float:
        """Of noise on each figure of Σz·tᵀ and Σt."""
        length = math.sqrt(self.target.squared_length)
        return length * self.sums_deviation / math.sqrt(self.label_weight)

    @property
    def square_deviation(self) -> float:
        """Of noise on Σ(t² − ½) of a number."""
        return self.sums_deviation / math.sqrt(RULE.target.square_weight)

    @cached_property
    def sums_blocks(self) -> GaussianBlocks:
        """On K·Σz and s·K·Σz·tᵀ of each feature with K bins, on s·Σt, and for a number on
        s²·Σ(t² − ½): whole numbers, s being the target's scale."""
        target, parts = self.target, self.target.parts
        label = target.scale * self.label_deviation
        squares = target.scale**2 * self.square_deviation
        return GaussianBlocks(
            sigmas=(
                *(count * self.count_deviation for count in self.bins),
                *(count * label for count in self.bins),
                label,
                *((squares,) if target.is_number else ()),
            ),
            shapes=(
                *((count,) for count in self.bins),
                *((count,) if parts == 1 else (count, parts) for count in self.bins),
                (parts,),
                *(((1,),) if target.is_number else ()),
            ),
            sensitivity=self.sums.scaled(1 / self.sums_deviation),
        )

    @cached_property
    def products_blocks(self) -> GaussianBlocks | None:
        """On K_j·K_k·Σ z_j z_kᵀ of each pair j < k: whole numbers. None without a pair."""
        if self.products is None:
            return None
        shapes = tuple(
            (one, two) for place, one in enumerate(self.bins) for two in self.bins[place + 1 :]
        )
        return GaussianBlocks(
            sigmas=tuple(one * two * self.products_deviation for one, two in shapes),
            shapes=shapes,
            sensitivity=self.products.scaled(1 / self.products_deviation),
        )

    @property
    def rho(self) -> float:
        """What both cost together."""
        products = self.products_blocks
        return self.sums_blocks.event().rho + (0.0 if products is None else products.event().rho)


def _count_weight(rates: Sequence[float]) -> float:
    """The weight of Σz for which the noise of Σz·tᵀ − mean(t)·Σzᵀ is least: rare classes, or a
    number that is mostly high or low, need exact counts."""
    clip, count = RULE.moments.rate_clip, len(rates)
    even = 1 / count
    inside = np.clip(np.asarray(rates, dtype=np.float64), clip * 2 * even, 1 - clip * 2 * even)
    excess = float(np.linalg.norm(inside - even)) * math.sqrt(count) / (count - 1)
    return excess / (1 + excess)


def _gram_share(ratio: float, target: Target) -> float:
    """Of products in the second release, given how their sensitivity compares to that of sums.

    Noise on products counts by the size of coefficients, which is smaller for each of many classes
    and for numbers."""
    rule = RULE.moments
    if isinstance(target, ClassTarget):
        factor = rule.gram_factor / math.sqrt(target.count - 1)
    else:
        factor = RULE.target.number_gram_factor
    share = factor * ratio / (1 + factor * ratio)
    return float(np.clip(share, rule.gram_least, rule.gram_most))


def _deviation(sensitivity: Sensitivity, rho: float) -> float:
    """The least noise of this cost; a little more, for what floating point loses."""
    return sensitivity.value / math.sqrt(2 * rho) * (1 + MARGIN)
