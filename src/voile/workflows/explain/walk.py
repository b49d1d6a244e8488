"""The walk of DESIGN for callers who share it: one look, one draw, one transaction.

Each caller gets an outcome of its own. What is raised here is everybody's: a log that is not the
one we know, a fault of the database; then nothing of the transaction is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TypeAlias

from voile.core.errors import InvalidInput, Refused
from voile.core.storage import Transaction
from voile.core.storage.grouped import grouped_writes
from voile.ledger import Alert, Settled
from voile.workflows.custody import Custody
from voile.workflows.explain.charging import (
    AccountQuestions,
    Answer,
    Drawn,
    leaving,
    look_up,
    settle,
)

Asking: TypeAlias = Callable[[Transaction], AccountQuestions]
"""Makes the questions of one caller, where the account that pays can be read."""
Missing: TypeAlias = Mapping[int, Sequence[int]]
"""Of each caller, the numbers of the questions that were not answered before."""
Draws: TypeAlias = Mapping[int, Mapping[int, Drawn] | Exception]
"""Of each caller, the answers to these, or what went wrong."""
Looked: TypeAlias = tuple[AccountQuestions, Sequence[Settled | None]]


def answer_callers(
    custody: Custody,
    asking: Sequence[Asking | Exception],
    draw: Callable[[Missing], Draws],
    tell: Callable[[Sequence[Alert]], None],
) -> list[tuple[AccountQuestions, tuple[Answer, ...]] | Exception]:
    """All four steps.

    Args:
        asking: for each caller its questions, or why it cannot ask any.
        draw: step 2.
        tell: is called with thresholds that were reached, after the commit.
    """
    looked = custody.storage.submit(lambda t: _look(custody, t, asking))
    missing = {
        caller: [number for number, stored in enumerate(each[1]) if stored is None]
        for caller, each in enumerate(looked)
        if not isinstance(each, Exception) and None in each[1]
    }
    settled = dict[int, Sequence[Settled] | Exception]()
    if missing:
        drawn = draw(missing)
        settled = custody.storage.submit(lambda t: _settle(custody, t, looked, drawn))
    tell(_alerts(settled))
    return [_leaving(custody, each, settled.get(n)) for n, each in enumerate(looked)]


def _look(
    custody: Custody, t: Transaction, asking: Sequence[Asking | Exception]
) -> list[Looked | Exception]:
    """Step 1."""
    custody.log.check(t)
    with _shared(t, len(asking)) as t:
        return [
            each if isinstance(each, Exception) else _look_one(custody, t, each) for each in asking
        ]


def _look_one(custody: Custody, t: Transaction, asking: Asking) -> Looked | Exception:
    try:
        questions = asking(t)
    except (InvalidInput, Refused) as error:
        return error
    found = look_up(custody, t, questions)
    return found if isinstance(found, Exception) else (questions, found)


def _settle(
    custody: Custody, t: Transaction, looked: Sequence[Looked | Exception], drawn: Draws
) -> dict[int, Sequence[Settled] | Exception]:
    """Step 3."""
    outcomes: dict[int, Sequence[Settled] | Exception] = {}
    with _shared(t, len(drawn)) as t:
        for caller, answers in drawn.items():
            each = looked[caller]
            assert not isinstance(each, Exception)
            if isinstance(answers, Exception):
                outcomes[caller] = answers
            else:
                outcomes[caller] = settle(custody, t, each[0], answers)
    return outcomes


def _shared(t: Transaction, callers: int) -> AbstractContextManager[Transaction]:
    """What many write goes to the database table by table."""
    return grouped_writes(t) if callers > 1 else nullcontext(t)


def _alerts(settled: Mapping[int, Sequence[Settled] | Exception]) -> list[Alert]:
    answered = [each for each in settled.values() if not isinstance(each, Exception)]
    return [alert for each in answered for one in each if one.grant for alert in one.grant.alerts]


def _leaving(
    custody: Custody, looked: Looked | Exception, settled: Sequence[Settled] | Exception | None
) -> tuple[AccountQuestions, tuple[Answer, ...]] | Exception:
    """Step 4."""
    if isinstance(looked, Exception):
        return looked
    if isinstance(settled, Exception):
        return settled
    questions, found = looked
    given = settled or [stored for stored in found if stored is not None]
    return questions, tuple(leaving(custody, each) for each in given)
