"""How a federation is watched on a terminal: rounds, clients, and the budget spent so far."""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from voile.cli.logs import SAID

if TYPE_CHECKING:
    from voile.federation import HistoryRow, Progress, Seen

_MOST_NAMED: Final = 5


_log = logging.getLogger(__name__)


def rounds_line(delta: float) -> Progress:
    """A line that is rewritten on a terminal; one line a round elsewhere. Goes to stderr."""
    from voile.federation import most_spent

    spent: dict[str, float] = {}

    def show(seen: Seen) -> None:
        terminal = sys.stderr.isatty()
        if seen.done:
            # The budget of a round is read once: composing costs more than a line is worth.
            spent[seen.stage] = most_spent(seen.rows, delta) if seen.round == seen.rounds else 0.0
            _log.info("%s: round %d of %d is done", seen.stage, seen.round, seen.rounds)
        if not (terminal or seen.done):
            return
        read = spent.get(seen.stage)
        budget = f"; ε = {read:.3g} at δ = {delta:g} spent in this stage" if read else ""
        missing = _missing(seen) if seen.done else []
        text = (
            f"{seen.stage}: round {seen.round} of {seen.rounds}, "
            f"{seen.answered - len(missing)} of {seen.asked} clients{_named(missing)}{budget}"
        )
        end = "\n" if seen.done and (seen.round == seen.rounds or not terminal) else ""
        sys.stderr.write(f"\r\x1b[K{text}{end}" if terminal else f"{text}\n")
        sys.stderr.flush()

    return show


def _missing(seen: Seen) -> list[HistoryRow]:
    """Of the last round: who was heard of, or given up, and is not in what was made of it."""
    of_round = (row for row in seen.rows if (row.stage, row.round) == (seen.stage, seen.round))
    return [row for row in of_round if not row.outcome.counts]


def _named(missing: Sequence[HistoryRow]) -> str:
    told = [f"{row.client}: {row.outcome}" for row in missing[:_MOST_NAMED]]
    more = ["…"] if len(missing) > _MOST_NAMED else []
    return f" ({'; '.join(told + more)})" if told else ""


def say(text: str) -> None:
    """What is being done, in words; to stderr, beside the results."""
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()
    logging.getLogger(SAID).info(text)


def say_if_weak(epsilon: float, delta: float) -> None:
    """A promise that is about to be made, and means little."""
    from voile.privacy.weakness import weaknesses

    for weakness in weaknesses(epsilon, delta):
        say(f"voile: warning: {weakness}")


def steps_line(done: int, total: int) -> None:
    """How far a long computation is, on a terminal."""
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\x1b[K{done} of {total} steps" + ("\n" if done == total else ""))
        sys.stderr.flush()
