"""Try to refute every charged event, within a stated time.

Verdicts
    refuted       the code releases more than it charges for: a proof, at 1,000 to one over all
                  events together (Ville)
    not refuted   an attack that finds out half of the noise did not refute the claim, and that is
                  all it says
    blind         the attack did not find half of the noise in this time: nothing follows

Nothing here sees a protected record: rehearsals run on invented ones, so verdicts, figures and
duration say nothing about anybody.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

import numpy as np

from voile.attacks.betting import Floats, Wager
from voile.attacks.claims import curve_points, epsilon_at_variation, epsilon_of
from voile.attacks.rehearsal import Arrangement, Rehearsal
from voile.privacy.events import PrivacyEvent

THRESHOLD: Final = 1_000.0
"""Times the number of events: all of them together are wrongly accused once in a thousand times."""
FOUND_AT: Final = 20.0
"""For the epsilon that was found, which is told at 95 %."""
MOST_RUNS: Final = 200_000


class Verdict(StrEnum):
    """There is no verdict "safe"."""

    REFUTED = "refuted"
    NOT_REFUTED = "not refuted"
    BLIND = "blind"


@dataclass(frozen=True)
class Assessed:
    """What came of trying to refute one event.

    Args:
        name: of the stage or release.
        event: what was tried.
        epsilon, delta: what it claims.
        verdict: see the module.
        runs: of the code as it is, in each arrangement of canaries.
        e_value: the largest that was reached; refuted at `threshold`.
        epsilon_found: the largest epsilon, at the same delta, of a refuted event of the same family
            with more noise (at 95 %). What an attack has shown, not what is true.
        control_runs: after which half of the noise was found out; None if it was not.
    """

    name: str
    event: PrivacyEvent
    epsilon: float
    delta: float
    verdict: Verdict
    runs: int
    e_value: float
    threshold: float
    epsilon_found: float
    control_runs: int | None


Seen = Callable[[str, int, float], object]
"""Is told the name of a rehearsal, its runs so far and its e-value."""


def assess(
    rehearsals: Sequence[Rehearsal],
    *,
    seconds: float,
    threshold: float = THRESHOLD,
    most_runs: int = MOST_RUNS,
    seen: Seen = lambda *_: None,
    draw: np.random.Generator | None = None,
) -> tuple[Assessed, ...]:
    """Try to refute each, one after the other, in equal shares of the time.

    Args:
        rehearsals: of the events that were or will be charged.
        seconds: for all of them.
        threshold: for one event; multiplied by their number.
        most_runs: of one rehearsal.
        draw: of the coins; nobody's noise comes from it.
    """
    draw = np.random.default_rng() if draw is None else draw
    limit, end = threshold * len(rehearsals), time.monotonic() + seconds
    found = []
    for left, rehearsal in zip(range(len(rehearsals), 0, -1), rehearsals, strict=True):
        now = time.monotonic()
        until = now + max(0.0, end - now) / left
        found.append(_assess_one(rehearsal, limit, until, most_runs, seen, draw))
    return tuple(found)


def _assess_one(
    rehearsal: Rehearsal,
    limit: float,
    until: float,
    most_runs: int,
    seen: Seen,
    draw: np.random.Generator,
) -> Assessed:
    """The code as it is and the control take turns until the claim falls or time is up."""
    own, control = Contest.of(rehearsal), Contest.of(rehearsal, halved=True)
    caught: int | None = None
    while True:
        own.play(draw)
        seen(rehearsal.name, own.runs, own.e_value)
        if caught is None:
            control.play(draw)
            caught = control.runs if control.e_value >= limit else None
        over = own.e_value >= limit and caught is not None
        if over or own.runs >= most_runs or time.monotonic() >= until:
            break
    return _assessed(rehearsal, own, limit, caught)


def _assessed(rehearsal: Rehearsal, own: Contest, limit: float, caught: int | None) -> Assessed:
    verdict = Verdict.REFUTED if own.e_value >= limit else Verdict.NOT_REFUTED
    if verdict is Verdict.NOT_REFUTED and caught is None:
        verdict = Verdict.BLIND
    event, delta = rehearsal.event, rehearsal.delta
    return Assessed(
        name=rehearsal.name,
        event=event,
        epsilon=epsilon_of(event, delta),
        delta=delta,
        verdict=verdict,
        runs=own.runs,
        e_value=own.e_value,
        threshold=limit,
        epsilon_found=epsilon_at_variation(event, own.variation_found(), delta),
        control_runs=caught,
    )


@dataclass(eq=False)
class Contest:
    """Bets on all arrangements of one rehearsal; their e-values are averaged, never picked."""

    arrangements: list[tuple[Arrangement, Wager]]
    e_value: float = 1.0
    """The largest so far: whoever bets may stop at any time."""
    _largest: Floats | None = field(default=None, repr=False)

    @classmethod
    def of(cls, rehearsal: Rehearsal, *, halved: bool = False) -> Contest:
        """Over the code as it is; or, halved, over the same with half of the noise."""
        points = curve_points(rehearsal.event)
        arranged = rehearsal.arrangements(halved)
        return cls([(each, Wager(points, each.score_names)) for each in arranged])

    @property
    def runs(self) -> int:
        """Of each arrangement."""
        return self.arrangements[0][1].runs

    def play(self, draw: np.random.Generator) -> None:
        for arrangement, wager in self.arrangements:
            played = arrangement.play(draw)
            wager.stake(played.scores, played.inside)
        wagers = [wager for _, wager in self.arrangements]
        self.e_value = max(self.e_value, float(np.mean([wager.e_value for wager in wagers])))
        against = np.mean([wager.by_variation[1] for wager in wagers], axis=0)
        self._largest = against if self._largest is None else np.maximum(self._largest, against)

    def variation_found(self) -> float:
        """The largest total variation that is refuted together with all smaller ones, at 95 %."""
        if self._largest is None:
            return 0.0
        bounds = self.arrangements[0][1].by_variation[0]
        kept = np.flatnonzero(self._largest < FOUND_AT)
        first = int(kept[-1]) + 1 if len(kept) else 0
        return float(bounds[first]) if first < len(bounds) else 0.0
