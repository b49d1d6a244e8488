"""How a federation is watched on a terminal: rounds, clients, and the budget spent so far."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from voile.cli.logs import SAID

if TYPE_CHECKING:
    from voile.federation import HistoryRow, Progress, ProgressEvent
    from voile.training import Progress as Steps

_MOST_NAMED: Final = 5
_log = logging.getLogger(__name__)


def rounds_line(delta: float, clock: Callable[[], float] = time.monotonic) -> Progress:
    """A line that is rewritten on a terminal; one line a round elsewhere. Goes to stderr.

    From the second round on it says how long the stage will still take, by the rounds so far.
    """
    from voile.federation import most_spent

    spent: dict[str, float] = {}
    first: dict[str, tuple[int, float]] = {}
    left: dict[str, str] = {}

    def show(seen: ProgressEvent) -> None:
        terminal = sys.stderr.isatty()
        if seen.done:
            # The budget of a round is read once: composing costs more than a line is worth.
            spent[seen.stage] = most_spent(seen.rows, delta) if seen.round == seen.rounds else 0.0
            _log.info("%s: round %d of %d is done", seen.stage, seen.round, seen.rounds)
            # From the first round that was seen to end: an earlier one may be of a run before this.
            now = seen.round, clock()
            time_left = _time_left(first.setdefault(seen.stage, now), now, seen.rounds)
            left[seen.stage] = f"; about {time_left} left in this stage" if time_left else ""
        if not (terminal or seen.done):
            return
        read = spent.get(seen.stage)
        budget = f"; ε = {read:.3g} at δ = {delta:g} spent in this stage" if read else ""
        missing = seen.missing
        text = (
            f"{seen.stage}: round {seen.round} of {seen.rounds}, "
            f"{seen.answered - len(missing)} of {seen.asked} clients{_named(missing)}"
            f"{left.get(seen.stage, '')}{budget}"
        )
        end = "\n" if seen.done and (seen.round == seen.rounds or not terminal) else ""
        sys.stderr.write(f"\r\x1b[K{text}{end}" if terminal else f"{text}\n")
        sys.stderr.flush()

    return show


def _time_left(first: tuple[int, float], last: tuple[int, float], total: int) -> str:
    """In words, if what is left goes on as from the first to the last; empty if none can be said.

    Args:
        first, last: how much was done, and when.
    """
    from voile.app.federate.expectation import duration_in_words

    done = last[0] - first[0]
    if not done or last[0] == total:
        return ""
    return duration_in_words((last[1] - first[1]) / done * (total - last[0]))


def _named(missing: Sequence[HistoryRow]) -> str:
    told = [f"{row.client}: {row.outcome}" for row in missing[:_MOST_NAMED]]
    more = ["…"] if len(missing) > _MOST_NAMED else []
    return f" ({'; '.join(told + more)})" if told else ""


def say(text: str) -> None:
    """What is being done, in words; to stderr, beside the results."""
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()
    logging.getLogger(SAID).info(text)


def steps_line(clock: Callable[[], float] = time.monotonic) -> Steps:
    """How far a long computation is and how long it will still take, on a terminal."""
    seen: list[tuple[int, float]] = []

    def show(done: int, total: int) -> None:
        if not sys.stderr.isatty():
            return
        seen.append((done, clock()))
        left = _time_left(seen[0], seen[-1], total)
        text = f"{done} of {total} steps" + (f"; about {left} left" if left else "")
        sys.stderr.write(f"\r\x1b[K{text}" + ("\n" if done == total else ""))
        sys.stderr.flush()
        if done == total:
            seen.clear()

    return show
