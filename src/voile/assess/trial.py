"""What is audited: production code on invented records, of which some are canaries."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from voile.assess.betting import Coins, Floats
from voile.privacy.events import PrivacyEvent


class TrialResult(NamedTuple):
    """Some runs: who was in, and what the outputs say about each canary, by the name of a score.

    Scores follow from outputs alone. All arrays have the shape (runs, canaries).
    """

    inside: Coins
    scores: dict[str, Floats]


class Arrangement(Protocol):
    """One way to lay out canaries. May remember what earlier runs have taught."""

    @property
    def name(self) -> str: ...

    @property
    def score_names(self) -> tuple[str, ...]: ...

    def play(self, draw: np.random.Generator) -> TrialResult:
        """Some more runs, each with fresh coins from `draw` and the noise of production."""


@dataclass(frozen=True, eq=False)
class AuditTrial:
    """An event that was or will be charged, and how the code behind it is tried out.

    Args:
        name: of the stage or release.
        event: what is charged; this is what is bet against.
        arrangements: fresh ones of the code as it is; with True, of the same with half the noise.
        delta: at which epsilons are told.
        together: how many records one coin decides on. The bet is against what the event says about
            so many of them: whoever refutes that has refuted the event.
    """

    name: str
    event: PrivacyEvent
    arrangements: Callable[[bool], tuple[Arrangement, ...]]
    delta: float
    together: int = 1


def fair_coins(draw: np.random.Generator, runs: int, canaries: int) -> Coins:
    """Each canary by its own: exactly half of them would tell about each other."""
    return np.asarray(draw.integers(0, 2, (runs, canaries)), dtype=np.bool_)
