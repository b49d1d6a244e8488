"""The walk of DESIGN for callers who share it: one look, one draw, one transaction.

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
from voile.ledger import Alert, Settled

Asking: TypeAlias = Callable[[Reader], AccountQuestions]
"""Makes the questions of one caller, where the account that pays can be read."""
Missing: TypeAlias = Mapping[int, Sequence[int]]
"""Of each caller, the numbers of the questions that were not answered before."""
Draws: TypeAlias = Mapping[int, Mapping[int, Drawn] | Exception]
"""Of each caller, the answers to these, or what went wrong."""
Refusals: TypeAlias = Callable[[AccountQuestions, BudgetExceeded], object]
"""Is told that somebody was refused, and what for."""
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
    looked = _looked(custody, asking)
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


def _looked(custody: Custody, asking: Sequence[Asking | Exception]) -> list[Looked | Exception]:
    """Step 1, which holds up no writer: what it finds is looked at again in step 3.

    In the writer's turn only what is to be written down, a refusal, and what a snapshot cannot
    tell: one may be older than a checkpoint that was kept since.
    """
    with suppress(VerificationFailed):
        looked = custody.storage.read_snapshot(lambda t: _look(custody, t, asking))
        if not any(isinstance(each, BudgetExceeded) for each in looked):
            return looked
    return custody.storage.submit(lambda t: _look_and_record(custody, t, asking))


def look_now(custody: Custody, asking: Asking) -> Looked | Exception:
    """What is stored already, or why this would be refused as things stand; only reads."""
    return custody.storage.read_snapshot(lambda t: _look_one(custody, t, asking, _untold))


def _untold(_questions: AccountQuestions, _refused: BudgetExceeded) -> None:
    """What was only read is not written down."""


def _look(
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
        return _look(custody, t, asking, partial(record_refusal, custody, t))


def _look_one(custody: Custody, t: Reader, asking: Asking, refused: Refusals) -> Looked | Exception:
    try:
        questions = asking(t)
    except (InvalidInput, Refused) as error:
        return error
    found = look_up(custody, t, questions)
    if isinstance(found, BudgetExceeded):
        refused(questions, found)
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
    return questions, tuple(
        leaving(custody, asked, each) for asked, each in zip(questions.prepared, given, strict=True)
    )
