"""Steps 1 and 3 of the walk, for callers who share them: one look, one transaction.

Each caller gets an outcome of its own. What is raised here is everybody's: a log that is not the
one we know, a fault of the database; then nothing of the transaction is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import partial
from typing import TypeAlias

from voile.app.custody import Custody
from voile.app.explain.charging import (
    AccountQuestions,
    Answer,
    Drawn,
    leaving,
    look_up,
    record_refusal,
    settle,
)
from voile.core.errors import BudgetExceeded, InvalidInput, Refused, VerificationFailed
from voile.core.storage import Reader, Transaction
from voile.core.storage.grouped import grouped_writes
from voile.ledger import Settled

Asking: TypeAlias = Callable[[Reader], AccountQuestions]
"""Makes the questions of one caller, where the account that pays can be read."""
Missing: TypeAlias = Mapping[int, Sequence[int]]
"""Of each caller, the numbers of the questions that were not answered before."""
Draws: TypeAlias = Mapping[int, Mapping[int, Drawn] | Exception]
"""Of each caller, the answers to these, or what went wrong."""
Refusals: TypeAlias = Callable[[AccountQuestions, BudgetExceeded], object]
"""Is told that somebody was refused, and what for."""
Looked: TypeAlias = tuple[AccountQuestions, Sequence[Settled | None]]
"""The questions of one caller, and of each what was answered before."""
Outcome: TypeAlias = tuple[Answer, ...] | Exception
"""Of each caller, the answers, or why there are none."""


def look(custody: Custody, asking: Sequence[Asking | Exception]) -> list[Looked | Exception]:
    """Step 1: what was answered before, and whether the rest would fit.

    It holds up no writer, because what it finds is looked at again in step 3.
    In the writer's turn only what is to be written down, a refusal, and what a snapshot cannot
    tell: one may be older than a checkpoint that was kept since.
    """
    with suppress(VerificationFailed):
        looked = custody.storage.read_snapshot(lambda t: _look_all(custody, t, asking))
        if not any(isinstance(each, BudgetExceeded) for each in looked):
            return looked
    return custody.storage.submit(lambda t: _look_and_record(custody, t, asking))


def look_now(custody: Custody, asking: Asking) -> Looked | Exception:
    """What is stored already, or why this would be refused as things stand; only reads."""
    return custody.storage.read_snapshot(lambda t: _look_one(custody, t, asking, _untold))


def _untold(_questions: AccountQuestions, _refused: BudgetExceeded) -> None:
    """What was only read is not written down."""


def _look_all(
    custody: Custody, t: Reader, asking: Sequence[Asking | Exception], refused: Refusals = _untold
) -> list[Looked | Exception]:
    custody.log.check(t)
    return [
        each if isinstance(each, Exception) else _look_one(custody, t, each, refused)
        for each in asking
    ]


def _look_and_record(
    custody: Custody, t: Transaction, asking: Sequence[Asking | Exception]
) -> list[Looked | Exception]:
    with _shared(t, len(asking)) as t:
        return _look_all(custody, t, asking, partial(record_refusal, custody, t))


def _look_one(custody: Custody, t: Reader, asking: Asking, refused: Refusals) -> Looked | Exception:
    try:
        questions = asking(t)
    except (InvalidInput, Refused) as error:
        return error
    found = look_up(custody, t, questions)
    if isinstance(found, BudgetExceeded):
        refused(questions, found)
    return found if isinstance(found, Exception) else (questions, found)


def settle_all(
    custody: Custody, looked: Sequence[Looked | Exception], drawn: Draws
) -> list[Outcome]:
    """Step 3: one transaction checks again, charges, keeps and records; for each caller, what may
    leave now that it is committed.

    Args:
        drawn: answers to what was missing; nothing is written if there are none.
    """
    settled = dict[int, Sequence[Settled] | Exception]()
    if drawn:
        settled = custody.storage.submit(lambda t: _settle(custody, t, looked, drawn))
    return [_leaving(custody, each, settled.get(n)) for n, each in enumerate(looked)]


def unanswered(looked: Sequence[Looked | Exception]) -> Missing:
    """What has to be drawn."""
    return {
        caller: [number for number, stored in enumerate(each[1]) if stored is None]
        for caller, each in enumerate(looked)
        if not isinstance(each, Exception) and None in each[1]
    }


def _settle(
    custody: Custody, t: Transaction, looked: Sequence[Looked | Exception], drawn: Draws
) -> dict[int, Sequence[Settled] | Exception]:
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


def _leaving(
    custody: Custody, looked: Looked | Exception, settled: Sequence[Settled] | Exception | None
) -> Outcome:
    if isinstance(looked, Exception):
        return looked
    if isinstance(settled, Exception):
        return settled
    questions, found = looked
    given = settled or [stored for stored in found if stored is not None]
    return tuple(
        leaving(custody, asked, each) for asked, each in zip(questions.prepared, given, strict=True)
    )
