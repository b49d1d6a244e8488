"""Players of the game: single features, or groups of features that act together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from voile.core.digest_names import digest_name
from voile.core.explanation_checks import group_members

Groups: TypeAlias = Mapping[str, Sequence[str]]
"""For each group its features; features in no group play for themselves."""


@digest_name("voile.attribution.players.Players")
@dataclass(frozen=True, eq=False)
class Players:
    """Who plays, and which features belong to whom.

    Args:
        names: one per player.
        owner: for each feature the place of its player, shape (features,).
    """

    names: tuple[str, ...]
    owner: NDArray[np.intp]

    @classmethod
    def from_groups(cls, features: tuple[str, ...], groups: Groups | None) -> Players:
        """Players in the order in which their first feature stands among the features."""
        if groups is None:
            return cls(features, np.arange(len(features)))
        members = group_members(groups, features)
        team = {feature: name for name, group in members.items() for feature in group}
        names = tuple(dict.fromkeys(team.get(feature, feature) for feature in features))
        places = {name: place for place, name in enumerate(names)}
        return cls(names, np.array([places[team.get(feature, feature)] for feature in features]))

    @property
    def count(self) -> int:
        return len(self.names)

    @cached_property
    def single(self) -> bool:
        """Whether every player is one feature."""
        return self.count == len(self.owner)

    @cached_property
    def features(self) -> tuple[tuple[int, ...], ...]:
        """For each player the places of its features."""
        return tuple(
            tuple(int(f) for f in np.flatnonzero(self.owner == player))
            for player in range(self.count)
        )

    @cached_property
    def _belongs(self) -> NDArray[np.float64]:
        belongs: NDArray[np.bool_] = self.owner[:, np.newaxis] == np.arange(self.count)
        return belongs.astype(np.float64)

    def any_feature(self, flags: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """For flags per feature (..., features), whether one of a player's is set."""
        if self.single:
            return flags
        found: NDArray[np.bool_] = flags.astype(np.float64) @ self._belongs > 0
        return found

    def features_of(self, coalitions: NDArray[Any]) -> NDArray[Any]:
        """Coalitions (..., players) as flags per feature (..., features)."""
        return coalitions if self.single else coalitions[..., self.owner]

    def summed(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Per feature (rows, features, outputs) to per player, added up."""
        if self.single:
            return values
        total: NDArray[np.float64] = np.einsum("rfo,fp->rpo", values, self._belongs)
        return total
