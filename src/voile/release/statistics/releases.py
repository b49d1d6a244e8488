"""The three charged releases: fine tables, centred moments, a calibration table.

Each adds exact discrete Gaussian noise to whole numbers. The second and the third depend on rows
and on *released* numbers of those before them. Proofs: docs/guarantees/statistics.md.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import cached_property
from typing import Any, ClassVar, Final

import numpy as np

from voile.core import array_file
from voile.core.errors import InvalidInput
from voile.core.guarantee import Guarantee, RowPart
from voile.core.input_file import damaged
from voile.models.additive.bins import bin_codes
from voile.privacy.accounting.conversion import zcdp_to_epsilon
from voile.privacy.events import Zcdp
from voile.privacy.mechanisms import DiscreteGaussian
from voile.privacy.mechanisms.parameters import NoisePreview
from voile.privacy.sensitivity import Sensitivity
from voile.privacy.sensitivity.bound import check_bounds, positive
from voile.release.charged import STORED, Accuracy, ChargedRelease, OneTimeArtefact
from voile.release.contract import Codec
from voile.release.statistics.budget import (
    CALIBRATION,
    MOMENTS,
    TABLES,
    MomentsNoise,
    StatisticsBudget,
)
from voile.release.statistics.by_target import BeforeCalibration, solved_model
from voile.release.statistics.cells import cell_codes
from voile.release.statistics.merging import MergedTables
from voile.release.statistics.rule import RULE
from voile.release.statistics.solving import Estimates
from voile.release.statistics.sums import (
    LabelledRecords,
    centred_products,
    centred_sums,
)
from voile.release.statistics.targets import Whole

PAID_WITH: Final = "app.explain.ReleaseService.obtain"
PUBLIC_FACTS: Final = ("schema", "number of rows", "the frozen rule of private statistics")


@dataclass(frozen=True, eq=False)
class _Numbers(OneTimeArtefact):
    """Whole numbers with noise, as they were released.

    Args: besides those of `OneTimeArtefact`:
        blocks: in the order of the release.
    """

    blocks: tuple[Whole, ...]
    paid_with: ClassVar = PAID_WITH

    @cached_property
    def digest(self) -> str:
        """SHA-256 (hex) of all numbers, for identities of what depends on them."""
        found = hashlib.sha256()
        for block in self.blocks:
            found.update(f"{block.shape}\n".encode())
            found.update(np.ascontiguousarray(block, dtype="<i8").tobytes())
        return found.hexdigest()


@dataclass(frozen=True, eq=False)
class FineTables(_Numbers):
    """Noisy counts of each feature's fine cells by class, one table of shape (cells, classes) each.
    For a number, what rows add to two label cells.

    >>> tables = FineTables((np.array([[70, 20], [31, 79]]),), event=Zcdp(0.07))
    >>> tables.check_paid()
    Traceback (most recent call last):
    voile.core.errors.Refused: these tables were made from protected records ...
    """

    what: ClassVar = "tables"


NO_TABLES: Final = FineTables((), event=None)
"""In the place of the first release, where every feature has public cut points."""


@dataclass(frozen=True, eq=False)
class CentredMoments(_Numbers):
    """Noisy K·Σz and s·K·Σz·tᵀ of each feature, s·Σt, and K_j·K_k·Σ z_j z_kᵀ of each pair. For a
    number s²·Σ(t² − ½) comes after s·Σt; s is the scale of the target.

    >>> moments = CentredMoments(tuple(map(np.array, ([2, -1], [-98, 99], [3]))), event=None)
    >>> [block.tolist() for block in moments.blocks]
    [[2, -1], [-98, 99], [3]]
    """

    what: ClassVar = "moments"


@dataclass(frozen=True, eq=False)
class CalibrationTable(_Numbers):
    """Noisy counts of score bins by class: one table of shape (bins, 2). For more classes, of
    confidence by the rank that the model gives to a row's class; for a number Σt·p and Σ(p² − ½).

    >>> table = CalibrationTable((np.array([[90, 11], [12, 88]]),), event=None)
    >>> table.blocks[0].sum(axis=0).tolist()
    [102, 99]
    """

    what: ClassVar = "tables"


@dataclass(frozen=True, eq=False)
class _StatisticsRelease(ChargedRelease):
    """What the three releases have in common.

    Args (in addition to those of `ChargedRelease`):
        records: protected; a table of raw values, or `LabelledRecords`.
        budget: how much each of them tells.
        protected: a row of their data set; zero-out or replace one.
        delta: at which the epsilon of one release is stated; all three are judged together
            (`PrivateStatistics.guarantee`).
    """

    records: Any = field(repr=False)
    budget: StatisticsBudget
    _: KW_ONLY
    epsilon: float = field(init=False)
    name: ClassVar[str]
    made: ClassVar[type[_Numbers]]
    sections: ClassVar[tuple[str, ...]]
    """Of the rule, those that decide what is released."""
    part: ClassVar = RowPart.TRAINING
    _read: LabelledRecords = field(init=False, repr=False)

    # --- what each of them says -----------------------------------------------------------------

    @property
    def rho(self) -> float:
        """Its share of the budget, fixed before anything was released."""
        raise NotImplementedError

    @property
    def noise_rho(self) -> float:
        """What the noise costs that is drawn."""
        raise NotImplementedError

    @property
    def sensitivity(self) -> Sensitivity:
        """One of them, for unit, relation and conditions."""
        raise NotImplementedError

    @property
    def deviation(self) -> float:
        """The standard deviation of the noise on what is counted."""
        raise NotImplementedError

    @property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        raise NotImplementedError

    def exact(self, present: LabelledRecords) -> Sequence[Whole]:
        """The numbers before noise, from rows that are not null."""
        raise NotImplementedError

    def randomised(self, exact: Sequence[Whole]) -> Sequence[Whole]:
        raise NotImplementedError

    # --- what follows ---------------------------------------------------------------------------

    def prepare(self) -> None:
        check_bounds(self.sensitivity, self.protected)
        read = LabelledRecords.read(self.records, self.budget.schema)
        object.__setattr__(self, "_read", read)
        alone = self.budget.parties == 1 and self.budget.variances is None
        if len(read) > self.budget.rows or (alone and len(read) < self.budget.rows):
            raise InvalidInput(
                f"the budget is for {self.budget.rows} rows, found {len(read)}: null rows count"
            )
        if self.noise_rho > self.rho:
            raise InvalidInput("the noise costs more than its share of the budget")
        object.__setattr__(self, "epsilon", zcdp_to_epsilon(self.rho, self.delta))

    @property
    def identity_parts(self) -> tuple[str, str, str]:
        return self.budget.schema.digest, self.name, self.name

    @property
    def settings_v1(self) -> dict[str, object]:
        return {
            "delta": self.delta,
            "parties": self.budget.parties,
            "relation": str(self.budget.relation),
            "rho": self.budget.rho,
            "rows": self.budget.rows,
            "rule": RULE.digest(*self.sections, *self.more_sections),
            **self.made_from,
        }

    @property
    def more_sections(self) -> tuple[str, ...]:
        """Of the rule, those that decide in some releases only."""
        return self.budget.target.sections

    @property
    def made_from(self) -> dict[str, object]:
        """Digests and charges of the releases before it: new ones ask for a new one of this."""
        return {}

    def cost(self, rows: int) -> Zcdp:
        positive("rows", rows)
        return Zcdp(self.rho)

    def noise_guarantee(self, rows: int) -> Guarantee:  # noqa: ARG002
        return self.promise(
            mechanism=f"discrete Gaussian noise of standard deviation {self.deviation:.6g} on "
            f"{self.name}",
            composition="one release, by zero-concentrated differential privacy",
            public_facts=PUBLIC_FACTS,
            assumptions=(*self.sensitivity.conditions, "running time is not observed"),
        )

    def accuracy(self, rows: int) -> Accuracy:  # noqa: ARG002
        deviation = self.deviation
        noise = NoisePreview(deviation, 1.959964 * deviation, 2.326174 * deviation)
        return Accuracy.from_noise(noise, "values are sums over rows", *weak_signal(self.budget))

    def draw(self, rows: Any = None) -> Any:  # noqa: ARG002
        blocks = self.randomised(self.exact(self._read.present))
        return self.made(tuple(blocks), event=self.cost(1))

    @property
    def codec(self) -> Codec[Any]:
        """voile's saved format, in which equal numbers have equal bytes."""
        return Codec(self._pack, self._unpack)

    @property
    def _format(self) -> str:
        return f"voile {self.name}"

    def _pack(self, made: _Numbers) -> bytes:
        arrays = {f"{place:06d}": block for place, block in enumerate(made.blocks)}
        return array_file.pack(self._format, arrays, {})

    def _unpack(self, content: bytes) -> _Numbers:
        blocks = self.stored_blocks(content)
        with damaged(STORED):
            if tuple(block.shape for block in blocks) != self.shapes:
                raise ValueError(f"expected arrays of shapes {self.shapes}")
            return self.made(blocks, event=self.cost(1))

    @classmethod
    def stored_blocks(cls, content: bytes) -> tuple[Whole, ...]:
        """What a ledger keeps of such a release; nobody needs the rows for that."""
        arrays, _ = array_file.unpack(content, STORED, f"voile {cls.name}")
        with damaged(STORED):
            blocks = tuple(arrays[name] for name in sorted(arrays))
            if any(block.dtype != np.int64 for block in blocks):
                raise ValueError("expected whole numbers")
            return blocks


def weak_signal(budget: StatisticsBudget) -> tuple[str, ...]:
    """A warning from public facts, where noise will drown the rows."""
    least = RULE.signal.least
    if budget.signal >= least:
        return ()
    return (
        f"signal {budget.signal:.3g} is below {least:g}: explanations will be mostly noise. Use "
        "more rows, fewer features, a larger epsilon, or noise that parties share",
    )


@dataclass(frozen=True, eq=False)
class _AfterTables(_StatisticsRelease):
    """A release that depends on the bins which the tables led to."""

    tables: FineTables

    @cached_property
    def merged(self) -> MergedTables:
        return MergedTables(self.budget, self.tables.blocks)

    @property
    def more_sections(self) -> tuple[str, ...]:
        return (*super().more_sections, *self.merged.sections)


class _CountsRelease(_StatisticsRelease):
    """Counts of rows, with the same noise on each."""

    @property
    def noise(self) -> DiscreteGaussian:
        raise NotImplementedError

    @property
    def noise_rho(self) -> float:
        return self.noise.event().rho

    @property
    def sensitivity(self) -> Sensitivity:
        return self.noise.sensitivity

    @property
    def deviation(self) -> float:
        return self.noise.sigma


@dataclass(frozen=True, eq=False)
class PrivateFineTables(_CountsRelease):
    """The first release: for each feature, how many rows of each class lie in each fine cell.

    Guarantees
        1. One row moves all tables together by √d at most (zero-out), or √(2d) (replace one).
        2. Cells come from the schema: also those in which nobody is.
        3. No row makes `draw` raise.

    >>> from voile.core.guarantee import Protected
    >>> from voile.core.schema import Categories, Feature, Label, Schema
    >>> levels = Categories(("no", "yes"))
    >>> schema = Schema("people", (Feature("smoker", levels),), Label("ill", levels))
    >>> budget = StatisticsBudget(schema=schema, rows=200, relation="blank one", rho=0.5)
    >>> terms = {"protected": Protected("row", "blank one", "people"), "delta": 1e-6}
    >>> rows = {"smoker": ["no", "yes"] * 100, "ill": ["no", "yes"] * 100}
    >>> release = PrivateFineTables(rows, budget, **terms)
    >>> release.cost(1), [table.shape for table in release.draw().blocks]
    (Zcdp(rho=0.07125), [(2, 2)])
    """

    tag: ClassVar = "statistics-tables"
    name: ClassVar = TABLES
    made: ClassVar = FineTables
    sections: ClassVar = ("split", "bins")

    @property
    def rho(self) -> float:
        return self.budget.tables_rho

    @property
    def noise(self) -> DiscreteGaussian:
        return self.budget.tables_noise

    @property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        return tuple((cells, self.budget.target.columns) for cells in self.budget.fine_cells)

    def exact(self, present: LabelledRecords) -> list[Whole]:
        budget, table = self.budget, self.budget.target.table
        return [
            table(cell_codes(edges, present.rows[:, place]), present.labels, cells)
            for place, edges, cells in zip(
                budget.table_places, budget.fine_edges, budget.fine_cells, strict=True
            )
        ]

    def randomised(self, exact: Sequence[Whole]) -> list[Whole]:
        noisy = self.budget.tables_noise.randomise(np.concatenate(exact))
        return np.split(noisy, np.cumsum(self.budget.fine_cells)[:-1])


@dataclass(frozen=True, eq=False)
class PrivateMoments(_AfterTables):
    """The second release: centred one-hot sums, alone and with the label, and their products.

    Guarantees
        1. Its cost is its share of the budget, whatever bins the tables led to.
        2. One row moves it by its sensitivities at most
           (`voile.privacy.sensitivity.bound`).
        3. Bins and weights depend on the released tables alone. No row makes `draw` raise.

    Args: besides those of all three:
        tables: the first release, paid for.

    >>> from voile.core.guarantee import Protected
    >>> from voile.core.schema import Categories, Feature, Label, Schema
    >>> levels = Categories(("no", "yes"))
    >>> schema = Schema("people", (Feature("smoker", levels),), Label("ill", levels))
    >>> budget = StatisticsBudget(schema=schema, rows=200, relation="blank one", rho=0.5)
    >>> terms = {"protected": Protected("row", "blank one", "people"), "delta": 1e-6}
    >>> rows = {"smoker": ["no", "yes"] * 100, "ill": ["no", "yes"] * 100}
    >>> tables = FineTables((np.array([[100, 0], [0, 100]]),), event=None)
    >>> release = PrivateMoments(rows, budget, **terms, tables=tables)
    >>> release.cost(1), [block.shape for block in release.draw().blocks]
    (Zcdp(rho=0.40375), [(2,), (2,), (1,)])
    """

    tables: FineTables = field(kw_only=True)
    tag: ClassVar = "statistics-moments"
    name: ClassVar = MOMENTS
    made: ClassVar = CentredMoments
    sections: ClassVar = ("split", "bins", "moments")

    def prepare(self) -> None:
        self.tables.check_paid()
        super().prepare()

    @cached_property
    def noise(self) -> MomentsNoise:
        counts = [feature.count for feature in self.merged.bins]
        return self.budget.moments_noise(counts, self.merged.rates)

    @property
    def rho(self) -> float:
        return self.budget.moments_rho

    @property
    def noise_rho(self) -> float:
        return self.noise.rho

    @property
    def sensitivity(self) -> Sensitivity:
        return self.noise.sums

    @property
    def deviation(self) -> float:
        return self.noise.label_deviation

    @property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        products = self.noise.products_blocks
        return self.noise.sums_blocks.shapes + (() if products is None else products.shapes)

    @property
    def made_from(self) -> dict[str, object]:
        return {"tables": self.tables.digest, "tables_charge": self.tables.charge}

    def exact(self, present: LabelledRecords) -> list[Whole]:
        bins = self.merged.bins
        codes = bin_codes(bins, self.budget.schema, present.rows)
        counts = [feature.count for feature in bins]
        sums = centred_sums(codes, present.labels, counts, self.budget.target)
        return [*sums, *centred_products(codes, counts)]

    def randomised(self, exact: Sequence[Whole]) -> list[Whole]:
        sums, products = self.noise.sums_blocks, self.noise.products_blocks
        count = len(sums.shapes)
        noisy = list(sums.randomise(exact[:count]))
        return noisy + ([] if products is None else list(products.randomise(exact[count:])))


@dataclass(frozen=True, eq=False)
class PrivateCalibrationTable(_CountsRelease, _AfterTables):
    """The third release: how many rows of each class lie in each bin of the model's score.

    Guarantees
        1. One row moves it by 1 at most (zero-out), or √2 (replace one).
        2. Scores and edges depend on the two releases before it alone. Scores are added up row by
           row in a fixed order, so no row changes the score of another. No row makes `draw` raise.

    Args: besides those of all three:
        tables, moments: the releases before it, paid for.

    >>> from voile.core.guarantee import Protected
    >>> from voile.core.schema import Categories, Feature, Label, Schema
    >>> levels = Categories(("no", "yes"))
    >>> schema = Schema("people", (Feature("smoker", levels),), Label("ill", levels))
    >>> budget = StatisticsBudget(schema=schema, rows=200, relation="blank one", rho=0.5)
    >>> terms = {"protected": Protected("row", "blank one", "people"), "delta": 1e-6}
    >>> rows = {"smoker": ["no", "yes"] * 100, "ill": ["no", "yes"] * 100}
    >>> tables = FineTables((np.array([[100, 0], [0, 100]]),), event=None)
    >>> moments = CentredMoments(tuple(map(np.array, ([0, 0], [-200, 200], [0]))), event=None)
    >>> known = {"tables": tables, "moments": moments}
    >>> release = PrivateCalibrationTable(rows, budget, **terms, **known)
    >>> release.cost(1), [table.shape for table in release.draw().blocks]
    (Zcdp(rho=0.025), [(8, 2)])
    """

    tables: FineTables = field(kw_only=True)
    moments: CentredMoments = field(kw_only=True)
    tag: ClassVar = "statistics-calibration"
    name: ClassVar = CALIBRATION
    made: ClassVar = CalibrationTable
    sections: ClassVar = ("split", "bins", "moments", "solve", "calibration")

    def prepare(self) -> None:
        self.tables.check_paid()
        self.moments.check_paid()
        super().prepare()

    @cached_property
    def first(self) -> BeforeCalibration:
        return solved_model(Estimates(self.merged, self.moments.blocks))

    @property
    def rho(self) -> float:
        return self.budget.calibration_rho

    @property
    def noise(self) -> DiscreteGaussian:
        return self.budget.calibration_noise

    @property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        return (self.budget.calibration_shape,)

    @property
    def made_from(self) -> dict[str, object]:
        return {
            "moments": self.moments.digest,
            "moments_charge": self.moments.charge,
            "tables": self.tables.digest,
            "tables_charge": self.tables.charge,
        }

    def exact(self, present: LabelledRecords) -> list[Whole]:
        codes = bin_codes(self.first.bins, self.budget.schema, present.rows)
        return [self.first.calibration_table(codes, present.labels)]

    def randomised(self, exact: Sequence[Whole]) -> list[Whole]:
        return [self.budget.calibration_noise.randomise(exact[0])]
