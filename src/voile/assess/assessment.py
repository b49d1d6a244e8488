"""Try to refute every charged event, within a stated time.

Verdicts
    refuted       the code releases more than it charges for: a proof, at 1,000 to one over all
                  events together (Ville)
    not refuted   an attack that finds out half of the noise did not refute the claim, and that is
                  all it says
    blind         the attack did not find half of the noise in this time: nothing follows

Nothing here sees a protected record: trials run on invented ones, so verdicts, figures and
duration say nothing about anybody.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, NamedTuple, Protocol

import numpy as np

from voile.assess.betting import Bet, Coins, Floats
from voile.assess.claims import epsilon_at_variation, epsilon_of, group_points
from voile.privacy.events import PrivacyEvent
from voile.privacy.mechanisms import WeakPrivacyWarning

# --- What is audited: production code on invented records, of which some are canaries -------------


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


THRESHOLD: Final = 1_000.0
"""Times the number of events: all of them together are wrongly accused once in a thousand times."""
FOUND_AT: Final = 20.0
"""For the epsilon that was found, which is told at 95 %."""
MOST_RUNS: Final = 200_000
_HASTE: Final = 8
"""Time goes to a claim about which nothing can be said yet so many times as fast as to others."""


class Verdict(StrEnum):
    """There is no verdict "safe"."""

    REFUTED = "refuted"
    NOT_REFUTED = "not refuted"
    BLIND = "blind"

    @property
    def word(self) -> str:
        """For people; the value is the tag that is stored."""
        return "inconclusive" if self is Verdict.BLIND else self.value


@dataclass(frozen=True)
class AssessedClaim:
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


@dataclass(frozen=True)
class TrialOutcome:
    """How far an assessment is.

    Args:
        name: of the trial that was just tried.
        runs, e_value: its own, so far.
        found_out: for how many of the `claims` half of the noise was found out.
        seconds_left: of the stated time.
    """

    name: str
    runs: int
    e_value: float
    found_out: int
    claims: int
    seconds_left: float


AssessmentProgress = Callable[[TrialOutcome], object]
"""Is told after every turn."""


def assess(
    trials: Sequence[AuditTrial],
    *,
    seconds: float,
    threshold: float = THRESHOLD,
    most_runs: int = MOST_RUNS,
    seen: AssessmentProgress = lambda _: None,
    draw: np.random.Generator | None = None,
) -> tuple[AssessedClaim, ...]:
    """Try to refute each, in turns, until time is up.

    Whose turn it is depends on time alone and on which controls were found out, so on nothing but
    invented records: those that are still blind get most of it. Every bet may be stopped, or go on,
    at any time.

    Args:
        trials: of the events that were or will be charged.
        seconds: for all of them; each has one turn at least.
        threshold: for one event; multiplied by their number.
        most_runs: of one trial.
        draw: of the coins; nobody's noise comes from it.
    """
    draw = np.random.default_rng() if draw is None else draw
    limit, end = threshold * len(trials), time.monotonic() + seconds
    with warnings.catch_warnings():
        # Half of the noise is nobody's promise.
        warnings.simplefilter("ignore", WeakPrivacyWarning)
        running = [_RunningTrial.from_audit_trial(each, limit) for each in trials]
        while left := [each for each in running if not each.is_over(most_runs)]:
            current = min(left, key=lambda each: each.due)
            if current.own.runs and time.monotonic() >= end:
                break
            current.play(draw)
            seen(_told(current, running, end - time.monotonic()))
    return tuple(_assessed(each.trial, each.own, limit, each.caught) for each in running)


def _told(current: _RunningTrial, running: Sequence[_RunningTrial], left: float) -> TrialOutcome:
    found_out = sum(each.caught is not None for each in running)
    own, name = current.own, current.trial.name
    return TrialOutcome(name, own.runs, own.e_value, found_out, len(running), max(0.0, left))


@dataclass(eq=False)
class _RunningTrial:
    """The code as it is and the control take turns; the control until it is found out.

    Args:
        caught: after how many runs the control was found out.
        spent: seconds.
    """

    trial: AuditTrial
    own: BettingTest
    control: BettingTest
    limit: float
    caught: int | None = None
    spent: float = 0.0

    @classmethod
    def from_audit_trial(cls, trial: AuditTrial, limit: float) -> _RunningTrial:
        return cls(
            trial,
            BettingTest.from_trial(trial),
            BettingTest.from_trial(trial, halved=True),
            limit,
        )

    @property
    def due(self) -> float:
        """The smallest has the next turn: those that are blind still, then the least tried."""
        return self.spent * (1 if self.caught is None else _HASTE)

    def is_over(self, most_runs: int) -> bool:
        refuted = self.own.e_value >= self.limit and self.caught is not None
        return refuted or self.own.runs >= most_runs

    def play(self, draw: np.random.Generator) -> None:
        began = time.monotonic()
        self.own.play(draw)
        if self.caught is None:
            self.control.play(draw)
            self.caught = self.control.runs if self.control.e_value >= self.limit else None
        self.spent += time.monotonic() - began


def _assessed(
    trial: AuditTrial, own: BettingTest, limit: float, caught: int | None
) -> AssessedClaim:
    verdict = Verdict.REFUTED if own.e_value >= limit else Verdict.NOT_REFUTED
    if verdict is Verdict.NOT_REFUTED and caught is None:
        verdict = Verdict.BLIND
    event, delta = trial.event, trial.delta
    return AssessedClaim(
        name=trial.name,
        event=event,
        epsilon=epsilon_of(event, delta),
        delta=delta,
        verdict=verdict,
        runs=own.runs,
        e_value=own.e_value,
        threshold=limit,
        epsilon_found=epsilon_at_variation(
            event, own.variation_found(), delta, together=trial.together
        ),
        control_runs=caught,
    )


@dataclass(eq=False)
class BettingTest:
    """Bets on all arrangements of one trial; their e-values are averaged, never picked."""

    arrangements: list[tuple[Arrangement, Bet]]
    e_value: float = 1.0
    """The largest so far: whoever bets may stop at any time."""
    _largest: Floats | None = field(default=None, repr=False)

    @classmethod
    def from_trial(cls, trial: AuditTrial, *, halved: bool = False) -> BettingTest:
        """Over the code as it is; or, halved, over the same with half of the noise."""
        points = group_points(trial.event, trial.together)
        arranged = trial.arrangements(halved)
        return cls([(each, Bet(points, each.score_names)) for each in arranged])

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
