"""Where the attribution vectors of a private population come from, and how far one record moves
the mean of their absolute values.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from voile.attribution import Groups, Speed, is_exact
from voile.attribution.choosing import MOST_EXACT_PLAYERS
from voile.attribution.players import Players
from voile.core.errors import Refused
from voile.core.guarantee import Relation
from voile.core.schema import Schema
from voile.models import DeclaredOutputs
from voile.privacy.sensitivity import (
    OutputSet,
    Sensitivity,
    mean_absolute_shapley,
    mean_absolute_shapley_over_itself,
    shapley_norm,
)
from voile.release.clipped import clipped
from voile.release.coalition_designs import full_stretch
from voile.release.games import BackgroundGames, background_outputs, joint
from voile.release.origin import Explainer
from voile.release.output_sets import SAME_ANSWER, BoundedModel, declared_set
from voile.release.records import EXPLAINER_IS_STATELESS, PerRow, Records

NOISE_ONLY: Final = (
    "standard errors and half widths are those of the noise: how far the explainer itself is off "
    "is not in them"
)


@dataclass(frozen=True, eq=False)
class ByExplainer:
    """Any explainer whose background is public or was made with differential privacy.

    Each record is explained alone, and its vector clipped to B·R, which no exact vector exceeds.

    Args:
        explainer: any; all that it holds must be covered by the origins of the release.
        outputs: where the outputs of the explained model lie.
        schema: what is public about the records.

    >>> from voile.attribution import ExactShapley
    >>> from voile.core.schema import Feature, Numbers
    >>> from voile.models import Box
    >>> schema = Schema("t", (Feature("age", Numbers(0, 1)), Feature("bmi", Numbers(0, 1))))
    >>> explainer = ExactShapley(lambda x: x.mean(axis=1), [[0.5, 0.5]], schema=schema)
    >>> one = ByExplainer(explainer, Box(0, 1), schema)
    >>> float(one.sensitivity(1_000, Relation.BLANK_ONE)) == one.longest / 1_000
    True
    """

    explainer: Explainer
    outputs: DeclaredOutputs
    schema: Schema
    inner: PerRow = field(init=False, repr=False)
    declared: OutputSet = field(init=False, repr=False)

    def __post_init__(self) -> None:
        inner = PerRow(self.explainer, self.schema)
        object.__setattr__(self, "inner", inner)
        object.__setattr__(self, "declared", declared_set(self.outputs, inner.outputs))

    @property
    def players(self) -> tuple[str, ...]:
        return self.inner.known.feature_names

    @property
    def output_names(self) -> tuple[str, ...]:
        return self.inner.known.output_names

    @property
    def base(self) -> NDArray[np.float64]:
        return self.inner.base

    identity: ClassVar[dict[str, str]] = {"background": "explainer"}
    """Tags for stored identities."""
    identity_v1: ClassVar[str] = "ByExplainer"
    """The same as version 1 spelled it; the text must never change."""

    @property
    def teams(self) -> dict[str, list[str]]:
        """For each player its features, or nothing where that is up to an explainer."""
        return {player: [] for player in self.players}

    @property
    def notes(self) -> tuple[str, ...]:
        return (*self.inner.notes, NOISE_ONLY)

    remarks: ClassVar[tuple[str, ...]] = ()
    """What to know before drawing."""

    @property
    def longest(self) -> float:
        return shapley_norm(features=len(self.players), output_width=self.declared)

    def sensitivity(self, rows: int, relation: Relation) -> Sensitivity:
        bound = mean_absolute_shapley(
            features=len(self.players), rows=rows, output_width=self.declared, relation=relation
        )
        return replace(bound, conditions=(*bound.conditions, EXPLAINER_IS_STATELESS))

    def vectors(self, records: Records) -> NDArray[np.float64]:
        """Shape (n, players, outputs); null records are explained by zeros."""
        found = clipped(self.inner.vectors(records.rows), self.longest)
        found[records.blank] = 0.0
        return found


@dataclass(frozen=True, eq=False)
class OverItself:
    """Exact values of a population against itself: one record acts twice, and costs more.

    Args:
        model: with a declared output set.
        schema: what is public about the records.
        groups: features that act together as one player.
        speed: changes no value.

    >>> from voile.core.schema import Feature, Numbers
    >>> from voile.models import Box, wrap
    >>> schema = Schema("t", (Feature("age", Numbers(0, 1)), Feature("bmi", Numbers(0, 1))))
    >>> one = OverItself(wrap(lambda x: x.mean(axis=1), outputs=Box(0, 1)), schema)
    >>> one.players, 0 < float(one.sensitivity(1_000, Relation.BLANK_ONE)) < 0.01
    (('age', 'bmi'), True)
    """

    model: Any
    schema: Schema
    groups: Groups | None = None
    speed: Speed = field(default_factory=Speed)
    bounded: BoundedModel = field(init=False, repr=False)
    team: Players = field(init=False, repr=False)

    def __post_init__(self) -> None:
        team = Players.from_groups(self.schema.feature_names, self.groups)
        if not is_exact(team.count):
            raise Refused(
                f"a population over itself needs exact values, up to {MOST_EXACT_PLAYERS} players, "
                f"found {team.count}; form groups, or use a public or synthetic background"
            )
        object.__setattr__(self, "team", team)
        object.__setattr__(self, "bounded", BoundedModel.from_model(self.model, self.schema))

    @property
    def players(self) -> tuple[str, ...]:
        return self.team.names

    @property
    def output_names(self) -> tuple[str, ...]:
        return self.bounded.names

    @property
    def base(self) -> NDArray[np.float64]:
        return np.zeros(self.bounded.outputs)

    @property
    def outputs(self) -> DeclaredOutputs:
        return self.bounded.model.outputs

    identity_v1: ClassVar[str] = "OverItself"

    @property
    def identity(self) -> dict[str, str]:
        return {"background": "itself", "batches": self.bounded.batches}

    @property
    def teams(self) -> dict[str, list[str]]:
        names = self.schema.feature_names
        members = zip(self.team.names, self.team.features, strict=True)
        return {player: [names[place] for place in places] for player, places in members}

    @property
    def notes(self) -> tuple[str, ...]:
        return ("no base value is released (0)",)

    @property
    def remarks(self) -> tuple[str, ...]:
        return self.bounded.remarks

    def sensitivity(self, rows: int, relation: Relation) -> Sensitivity:
        bound = mean_absolute_shapley_over_itself(
            features=self.team.count,
            rows=rows,
            background_rows=rows,
            output_width=self.bounded.declared,
            relation=relation,
        )
        game = 2 / math.sqrt(self.team.count) + full_stretch(self.team.count)
        value = bound.value + SAME_ANSWER * self.bounded.declared.diameter * game
        conditions = (*bound.conditions, *self.bounded.conditions)
        return replace(bound, value=value, conditions=conditions)

    def vectors(self, records: Records) -> NDArray[np.float64]:
        games = BackgroundGames.from_model(
            self.bounded,
            records,
            schema=self.schema,
            players=self.team,
            speed=self.speed,
            designs=None,
        )
        found = joint(games, records.rows, background_outputs(games))[:, :-1]
        found[records.blank] = 0.0
        return found


Importance: TypeAlias = ByExplainer | OverItself
"""Where the vectors of a population come from, and how far one record moves their mean."""
