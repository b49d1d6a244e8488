"""How a budget is divided among the three releases, from public facts alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np

from voile.core.errors import InvalidInput
from voile.core.guarantee import Relation
from voile.core.schema import Schema
from voile.models.additive.model import classes_of
from voile.privacy.accounting.conversion import zcdp_budget
from voile.privacy.events import Zcdp
from voile.privacy.mechanisms import DiscreteGaussian
from voile.privacy.mechanisms.blocks import GaussianBlocks
from voile.privacy.mechanisms.parameters import MARGIN, checked_target
from voile.privacy.sensitivity import Sensitivity
from voile.privacy.sensitivity.bound import positive
from voile.privacy.sensitivity.statistics import cell_tables, centred_products, centred_sums
from voile.release.statistics.cells import fine_edges
from voile.release.statistics.rule import RULE


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
        schema: with a label of two classes; public.
        rows: how many there are in all; public.
        relation: how neighbours differ: blank one or replace one.
        rho: of all three releases together (zero-concentrated differential privacy).
        parties: how many add up their rows, each with the whole noise of its own: then noise in
            the sum is √parties times as large.
    """

    schema: Schema
    rows: int
    relation: Relation
    rho: float
    parties: int = 1

    def __post_init__(self) -> None:
        positive("rows", self.rows)
        positive("parties", self.parties)
        classes_of(self.schema)
        if not (math.isfinite(self.rho) and self.rho > 0):
            raise InvalidInput(f"rho must be finite and above 0, found {self.rho}")
        _ = self.tables_noise

    @classmethod
    def within(
        cls,
        *,
        schema: Schema,
        rows: int,
        relation: Relation,
        epsilon: float,
        delta: float,
        parties: int = 1,
    ) -> Self:
        """The least noise that an adaptive account of (epsilon, delta) grants (zCDP)."""
        epsilon, delta = checked_target(epsilon, delta, pure=False)
        rho = zcdp_budget(epsilon, delta) * (1 - MARGIN)
        return cls(schema=schema, rows=rows, relation=relation, rho=rho, parties=parties)

    # --- shares ---------------------------------------------------------------------------------

    @property
    def calibration_rho(self) -> float:
        return self.rho * RULE.split.calibration

    @property
    def tables_rho(self) -> float:
        return self.rho * (1 - RULE.split.calibration) * RULE.split.tables

    @property
    def moments_rho(self) -> float:
        return self.rho * (1 - RULE.split.calibration) * (1 - RULE.split.tables)

    @property
    def events(self) -> tuple[Zcdp, Zcdp, Zcdp]:
        """What the three releases cost, in order."""
        return Zcdp(self.tables_rho), Zcdp(self.moments_rho), Zcdp(self.calibration_rho)

    # --- sizes ----------------------------------------------------------------------------------

    @property
    def signal(self) -> float:
        """How far rows stand out of the noise: what decides how many bins there are."""
        mu = math.sqrt(2 * self.rho)
        return self.rows * mu / (math.sqrt(self.parties) * self.tables_sensitivity.value)

    @property
    def bins(self) -> int:
        """Of a number."""
        rule = RULE.bins
        return int(np.clip(round(rule.per_root * self.signal ** (1 / 3)), rule.least, rule.most))

    @property
    def level_bins(self) -> int:
        """Of a category, at most."""
        return max(self.bins, min(RULE.bins.levels_most, 2 * self.bins))

    @cached_property
    def fine_edges(self) -> tuple[tuple[float, ...] | None, ...]:
        """Of each feature's fine cells; None for a category, whose levels are its cells."""
        rule = RULE.bins
        count = int(np.clip(rule.fine_per_bin * self.bins, rule.fine_least, rule.fine_most))
        return tuple(fine_edges(feature.domain, count) for feature in self.schema.features)

    @cached_property
    def fine_cells(self) -> tuple[int, ...]:
        """How many cells each feature's table has, for each class."""
        return tuple(
            len(getattr(feature.domain, "values", ())) if edges is None else len(edges) + 1
            for feature, edges in zip(self.schema.features, self.fine_edges, strict=True)
        )

    @property
    def is_wide(self) -> bool:
        """Whether the calibration table has bins on the long tail."""
        mu = math.sqrt(2 * self.calibration_rho)
        return self.rows * mu / math.sqrt(self.parties) >= RULE.calibration.wide_from

    @property
    def calibration_bins(self) -> int:
        return len(RULE.calibration.wide_edges) + 1 if self.is_wide else RULE.calibration.bins

    # --- noise, as one party adds it --------------------------------------------------------------

    @property
    def tables_sensitivity(self) -> Sensitivity:
        return cell_tables(tables=len(self.schema.features), relation=self.relation)

    @cached_property
    def tables_noise(self) -> DiscreteGaussian:
        sensitivity = self.tables_sensitivity
        return DiscreteGaussian(
            sigma=_deviation(sensitivity, self.tables_rho),
            sensitivity=sensitivity,
            shape=(sum(self.fine_cells), 2),
        )

    @cached_property
    def calibration_noise(self) -> DiscreteGaussian:
        sensitivity = cell_tables(tables=1, relation=self.relation)
        return DiscreteGaussian(
            sigma=_deviation(sensitivity, self.calibration_rho),
            sensitivity=sensitivity,
            shape=(self.calibration_bins, 2),
        )

    def moments_noise(self, bins: Sequence[int], rate: float) -> MomentsNoise:
        """For features with so many bins, given the label rate that the tables show."""
        return MomentsNoise.divided(tuple(bins), rate, self.relation, self.moments_rho)


@dataclass(frozen=True, kw_only=True)
class MomentsNoise:
    """Noise of the second release, by what it is added to. All figures are of sums over rows.

    Args:
        bins: of each feature in use.
        label_weight: the share of the squared sensitivity that sums with the label get.
        sums: sensitivity of the weighted sums.
        sums_deviation: of their noise.
        products, products_deviation: of products of two features; None for fewer than two.
    """

    bins: tuple[int, ...]
    label_weight: float
    sums: Sensitivity
    sums_deviation: float
    products: Sensitivity | None = None
    products_deviation: float = 0.0

    @classmethod
    def divided(
        cls, bins: tuple[int, ...], rate: float, relation: Relation, rho: float
    ) -> MomentsNoise:
        """By the frozen rule; whatever the bins are, the cost is `rho` at most."""
        rule = RULE.moments
        excess = abs(0.5 - float(np.clip(rate, rule.rate_clip, 1 - rule.rate_clip)))
        weight = 1 - max(excess / (0.5 + excess), rule.count_weight_least)
        sums = centred_sums(bins=bins, label_weight=weight, relation=relation)
        if len(bins) < 2:
            return cls(
                bins=bins, label_weight=weight, sums=sums, sums_deviation=_deviation(sums, rho)
            )
        products = centred_products(bins=bins, relation=relation)
        ratio = rule.gram_factor * products.value / sums.value
        share = float(np.clip(ratio / (1 + ratio), rule.gram_least, rule.gram_most))
        return cls(
            bins=bins,
            label_weight=weight,
            sums=sums,
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
        """Of noise on Σt·z and Σt."""
        return self.sums_deviation / math.sqrt(self.label_weight)

    @cached_property
    def sums_blocks(self) -> GaussianBlocks:
        """On K·Σz and K·Σt·z of each feature with K bins, and on Σt: whole numbers."""
        return GaussianBlocks(
            sigmas=(
                *(count * self.count_deviation for count in self.bins),
                *(count * self.label_deviation for count in self.bins),
                self.label_deviation,
            ),
            shapes=(*((count,) for count in self.bins), *((count,) for count in self.bins), (1,)),
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


def _deviation(sensitivity: Sensitivity, rho: float) -> float:
    """The least noise of this cost; a little more, for what floating point loses."""
    return sensitivity.value / math.sqrt(2 * rho) * (1 + MARGIN)
