"""The contribution rate of private attributes (FedSVA): what share of a model's use rests on them.

Players are groups of features, the worth of a coalition is how well a model does that sees these
groups alone, and the worth of nothing is 0. R = ψ(private) / Σ ψ with Shapley values ψ, clipped to
[0, 1]; where the sum is not above 0, R says nothing and counts as ½.

Three ways to know it:

- `free_rate`: of a model that is private already, on reference rows. Costs nothing.
- `ChargedRate`: of a client's own rows before anything is trained, charged once. Rows lie in
  disjoint blocks, each block has a rate of its own, and their mean moves by 1/blocks at most. It is
  a release: what it draws can be read once a ledger has charged it.
- never of a client's rows without a charge: R is a statistic of protected rows like any other.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import cache
from itertools import combinations
from typing import Any, ClassVar, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from voile.core.errors import InvalidInput, Refused
from voile.core.guarantee import Guarantee, ProtectedUnit, Relation, RowPart
from voile.core.input_file import damaged
from voile.core.schema import Schema
from voile.models import Model
from voile.pipelines.tables import TableRecords
from voile.privacy.accounting.conversion import gaussian_epsilon
from voile.privacy.events import Gaussian
from voile.privacy.mechanisms import GaussianMechanism
from voile.privacy.sensitivity import Norm, Sensitivity
from voile.privacy.sensitivity.bound import positive
from voile.release.charged import STORED, Accuracy, ChargedRelease, OneTimeArtefact
from voile.release.contract import Codec
from voile.training import Array
from voile.training.private import blank_records

Worth: TypeAlias = Callable[[frozenset[int]], float]
"""How well a model does that sees these players alone; it is asked about each coalition once."""

MOST_EXACT: Final = 5
"""Up to so many groups all coalitions are asked about; above, those along drawn permutations."""
PERMUTATIONS: Final = 32
UNDEFINED: Final = 0.5
RIDGE: Final = 1.0
NOT_COVERED: Final = (
    "the label and all columns that are not declared are public, and so is whatever they tell "
    "about the declared ones: neither they nor what is correlated with them are covered"
)


def contribution_rate(
    worth: Worth, players: int, private: int, draw: np.random.Generator | None = None
) -> float:
    """R of one player among several.

    Args:
        worth: of non-empty coalitions; that of nothing is 0.
        players: how many there are.
        private: which of them is the private one.
        draw: for permutations, where there are more than `MOST_EXACT` players.
    """
    if not 0 <= private < players or players < 2:
        raise InvalidInput(f"expected one of at least two players, found {private} of {players}")

    @cache
    def known(coalition: frozenset[int]) -> float:
        return worth(coalition) if coalition else 0.0

    if players <= MOST_EXACT:
        values = [_exact(known, players, player) for player in range(players)]
    elif draw is None:
        raise InvalidInput(f"{players} groups need a generator to draw permutations from")
    else:
        values = _sampled(known, players, draw)
    whole = known(frozenset(range(players)))  # the sum of all values, by permutations as well
    rate = values[private] / whole if whole > 0 else UNDEFINED
    return min(max(rate, 0.0), 1.0) if math.isfinite(rate) else UNDEFINED


def _exact(worth: Worth, players: int, player: int) -> float:
    others = [each for each in range(players) if each != player]
    total = 0.0
    for size in range(players):
        share = 1 / (players * math.comb(players - 1, size))
        for chosen in combinations(others, size):
            inside = frozenset(chosen)
            total += share * (worth(inside | {player}) - worth(inside))
    return total


def _sampled(worth: Worth, players: int, draw: np.random.Generator) -> list[float]:
    totals = [0.0] * players
    for _ in range(PERMUTATIONS):
        inside: frozenset[int] = frozenset()
        for player in draw.permutation(players).tolist():
            totals[player] += (worth(inside | {player}) - worth(inside)) / PERMUTATIONS
            inside |= {player}
    return totals


@dataclass(frozen=True)
class AttributeGroups:
    """Features in disjoint groups, one of which is private.

    Args:
        groups: names of features by name of the group; together they are all features.
        private: the name of the private group.
    """

    groups: Mapping[str, tuple[str, ...]]
    private: str

    @classmethod
    def two(cls, schema: Schema, private: Sequence[str]) -> AttributeGroups:
        """Private features, and all others (N = 2, which FedSVA recommends)."""
        others = tuple(name for name in schema.feature_names if name not in private)
        return cls({"private": tuple(private), "public": others}, "private")

    def check(self, schema: Schema) -> None:
        listed = sorted(name for group in self.groups.values() for name in group)
        if listed != sorted(schema.feature_names) or self.private not in self.groups:
            raise InvalidInput(
                f"groups must hold every feature of {schema.name!r} once and name the private "
                f"group; found {listed} and {self.private!r}"
            )

    @property
    def place(self) -> int:
        return list(self.groups).index(self.private)

    def features(self, coalition: frozenset[int]) -> set[str]:
        groups = list(self.groups.values())
        return {name for player in coalition for name in groups[player]}


def free_rate(
    model: Model,
    reference: TableRecords,
    groups: AttributeGroups,
    draw: np.random.Generator | None = None,
) -> float:
    """R of a trained model: its accuracy on reference rows of which it sees some groups alone.

    Post-processing of the model and of the rows: if the model is private and the rows are public,
    it costs nothing. Absent features have their defaults.
    """
    groups.check(reference.schema)
    rows, wanted = reference.rows, reference.labels
    blank, names = reference.schema.null_row, reference.schema.feature_names

    def accuracy(coalition: frozenset[int]) -> float:
        seen = np.isin(names, list(groups.features(coalition)))
        found = model.predict(np.where(seen, rows, blank)).argmax(axis=1)
        return float((found == wanted).mean())

    return contribution_rate(accuracy, len(groups.groups), groups.place, draw)


@dataclass(frozen=True, kw_only=True)
class ContributionRate(OneTimeArtefact):
    """R of protected rows, with noise; it can be read once it is paid for."""

    _noisy: float = field(repr=False)
    what: ClassVar = "rates"
    paid_with: ClassVar = "app.explain.ReleaseService.obtain"

    @property
    def value(self) -> float:
        """R, clipped to [0, 1]; refused while nobody has paid for it."""
        self.check_paid()
        return min(max(self._noisy, 0.0), 1.0)


@dataclass(frozen=True, eq=False)
class ChargedRate(ChargedRelease):
    """R of a client's own rows, charged once, before anything is trained: a `ContributionRate`.

    Rows are dealt into blocks by their place, which is public. Each block has a rate in [0, 1] that
    depends on its own rows alone; the mean of all rates has noise. One row, or the declared columns
    of one, blanked or replaced, changes the rate of one block by 1 at most: sensitivity 1/blocks.

    It is a release like any other: `ReleaseService.obtain` charges it, and nothing else gives a
    rate that can be read.

    Args: besides those of `ChargedRelease`:
        records: protected; their number is public.
        groups: of features, one of which is private.
        blocks: how many.
        noise_multiplier: of the noise, over 1/blocks; epsilon follows from it.
    """

    records: TableRecords = field(repr=False)
    groups: AttributeGroups
    _: KW_ONLY
    blocks: int
    noise_multiplier: float
    epsilon: float = field(init=False)
    part: ClassVar = RowPart.POPULATION
    name: ClassVar = "contribution rate"
    tag: ClassVar = "contribution-rate"

    def prepare(self) -> None:
        if type(self.blocks) is not int or self.blocks < 2:
            raise InvalidInput(f"at least two blocks are needed, found {self.blocks!r}")
        self.groups.check(self.records.schema)
        self.sensitivity()
        epsilon = gaussian_epsilon(self.cost(1).noise_multiplier, self.delta)
        object.__setattr__(self, "epsilon", epsilon)

    @property
    def identity_parts(self) -> tuple[str, str, str]:
        return self.records.schema.digest, self.name, self.name

    @property
    def settings_v1(self) -> dict[str, object]:
        return {
            "blocks": self.blocks,
            "delta": self.delta,
            "groups": dict(self.groups.groups),
            "noise": self.noise_multiplier,
            "private": self.groups.private,
            "rows": len(self.records),
        }

    def cost(self, rows: int) -> Gaussian:
        positive("rows", rows)
        return Gaussian(self.noise_multiplier)

    def sensitivity(self) -> Sensitivity:
        """Of the mean; the same for a row and for declared columns of one, blanked or replaced.

        Of a unit with more rows than one it would be more: they may lie in all blocks.
        """
        protected = self.protected
        if protected.unit not in (ProtectedUnit.ROW, ProtectedUnit.COLUMNS):
            raise Refused(
                f"a rate is charged for a row or for declared columns of one, found "
                f"{protected.unit!s}: its rows may lie in every block"
            )
        if protected.relation is Relation.ADD_OR_REMOVE_ONE:
            raise Refused("a row that is added shifts all others to other blocks")
        return Sensitivity(
            value=1 / self.blocks,
            norm=Norm.L2,
            unit=protected.unit,
            relation=protected.relation,
            conditions=("rows are dealt into blocks by their place",),
        )

    @property
    def _noise(self) -> GaussianMechanism:
        sensitivity = self.sensitivity()
        # A little more noise than is charged: what rounding to the sampler's grid costs.
        sigma = self.noise_multiplier * sensitivity.value * (1 + 1e-9)
        return GaussianMechanism(sigma=sigma, sensitivity=sensitivity, shape=(1,))

    def noise_guarantee(self, rows: int) -> Guarantee:  # noqa: ARG002
        columns = self.protected.unit is ProtectedUnit.COLUMNS
        return self.promise(
            mechanism=f"Gaussian noise of standard deviation {self._noise.sigma:.6g} on the mean "
            f"rate of {self.blocks} blocks",
            composition="one release",
            public_facts=("schema", "groups of columns", f"number of rows: {len(self.records)}"),
            assumptions=(
                *self.sensitivity().conditions,
                *((NOT_COVERED,) if columns else ()),
                "running time is not observed",
            ),
        )

    def accuracy(self, rows: int) -> Accuracy:  # noqa: ARG002
        return Accuracy.from_noise(self._noise.preview(), "the value is a share between 0 and 1")

    def draw(self, rows: Any = None) -> ContributionRate:  # noqa: ARG002
        with np.errstate(all="ignore"):
            mean = float(self._rates(np.random.default_rng()).mean())
        return self._made(float(self._noise.randomise([mean])[0]))

    def _made(self, noisy: float) -> ContributionRate:
        return ContributionRate(_noisy=noisy, event=self.cost(1))

    @property
    def codec(self) -> Codec[ContributionRate]:
        return Codec(lambda made: json.dumps(made._noisy).encode(), self._unpack)

    def _unpack(self, content: bytes) -> ContributionRate:
        with damaged(STORED):
            noisy = json.loads(content)
            if not isinstance(noisy, float):
                raise ValueError("expected a number")
            return self._made(noisy)

    def _rates(self, draw: np.random.Generator) -> NDArray[np.float64]:
        """The rate of each block, shape (blocks,): exact, and not for release.

        Args:
            draw: for permutations of many groups.
        """
        records, groups = self.records, self.groups
        features = np.array(records.schema.feature_names)[list(records.schema.column_features)]
        places = [np.flatnonzero(np.isin(features, group)) for group in groups.groups.values()]
        # Permutations are drawn once, from nothing that depends on rows.
        seed = int(draw.integers(2**63))
        there = ~blank_records((records.columns, records.targets))
        inputs = np.hstack([records.columns, np.ones((len(records), 1))])
        found = []
        for block in range(self.blocks):
            own = slice(block, None, self.blocks)
            worth = _Fitted(inputs[own][there[own]], records.targets[own][there[own]], places)
            order = np.random.default_rng(seed)
            found.append(contribution_rate(worth, len(places), groups.place, order))
        return np.array(found)


@dataclass(frozen=True, eq=False)
class _Fitted:
    """The accuracy of least squares on half of a block, fitted on the other half.

    Closed form, so that a rate takes milliseconds. A block that is too small is worth nothing.

    Args:
        inputs: encoded rows with a constant behind them.
        places: for each player where its columns are.
    """

    inputs: NDArray[np.float64]
    targets: Array
    places: Sequence[NDArray[np.intp]]

    def __call__(self, coalition: frozenset[int]) -> float:
        if len(self.inputs) < 2:
            return 0.0
        constant = np.array([self.inputs.shape[1] - 1])
        seen = self.inputs[
            :, np.concatenate([*(self.places[each] for each in coalition), constant])
        ]
        weights = ridge_weights(seen[::2], self.targets[::2])
        found = (seen[1::2] @ weights).argmax(axis=1)
        return float((found == self.targets[1::2].argmax(axis=1)).mean())


def ridge_weights(inputs: NDArray[np.float64], targets: Array) -> NDArray[np.float64]:
    """Of least squares with a ridge, by the smaller of two systems that have the same solution."""
    rows, columns = inputs.shape
    if rows < columns:
        return inputs.T @ np.linalg.solve(inputs @ inputs.T + RIDGE * np.eye(rows), targets)
    gram = inputs.T @ inputs + RIDGE * np.eye(columns)
    return np.asarray(np.linalg.solve(gram, inputs.T @ targets))
