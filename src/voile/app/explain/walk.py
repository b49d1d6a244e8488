"""The walk of one explanation: check, draw, settle in one transaction, release.

1. Check, from public facts alone: is the log the one we know, does the account protect what the
   release speaks about, was this asked before, would it fit? A refusal is recorded, and nothing is
   computed.
2. Draw: values and noise, in memory.
3. Settle: one transaction checks again, charges the account and all above it, keeps the noisy
   answer under its keyed digest, and appends the record.
4. Release: only now does an explanation leave.

Callers may share the steps, never an outcome: each has its own. What is raised here is everybody's,
such as a log that is not the one we know or a fault of the database; then nothing of the
transaction is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, ParamSpec, TypeAlias, TypeVar

from voile.app.budget import renew_due
from voile.app.explain.charging import (
    AccountQuestions,
    Answer,
    NoisyAnswer,
    is_recorded,
    leaving,
    look_up,
    record_refusal,
    settle,
)
from voile.app.explain.questions import ExplanationRequest, ReleaseTerms
from voile.app.explain.reading import AccountOf, NotRemembered, RememberedAccounts, read_ahead
from voile.app.explain.released import LoggedAnswer, ReleasedExplanation, joined, settled_notes
from voile.app.explain.rows import chosen, stacked
from voile.core.errors import InvalidInput, Refused, VerificationFailed
from voile.core.explanation import Explanation
from voile.core.guarantee import RowPart
from voile.core.row_note import notes_among
from voile.privacy.accounting.measures import consumed
from voile.privacy.events import PrivacyEvent, Repeated
from voile.records.audit_log import explanation_bytes
from voile.records.ledger import Alert, ChargedAnswer, would_cost
from voile.records.storage import Reader, Transaction
from voile.records.storage.session import ReadOnce, grouped_writes
from voile.records.vault import Vault
from voile.release import Release

ANSWERED_BEFORE: Final = "answered before: the same answer is free, unless you pass --redraw"
"""Said of a question, and it is enough to compare with it."""
Given = ParamSpec("Given")
Made = TypeVar("Made")
Outcome: TypeAlias = ReleasedExplanation | Exception
"""What became of one request among several."""
Asked: TypeAlias = Sequence[AccountQuestions | Exception]
"""Of each caller the questions, or why there are none."""
Looked: TypeAlias = tuple[AccountQuestions, Sequence[ChargedAnswer | None]]
"""The questions of one caller, and of each what was answered before."""
Missing: TypeAlias = Mapping[int, Sequence[int]]
"""Of each caller, the numbers of the questions that were not answered before."""
Explanations: TypeAlias = Mapping[int, Mapping[int, Explanation] | Exception]
"""Of each caller, the explanations that were drawn for these, or what went wrong."""
Draws: TypeAlias = Mapping[int, Mapping[int, NoisyAnswer] | Exception]
"""The same as bytes."""
Answers: TypeAlias = tuple[Answer, ...] | Exception
"""Of each caller, the answers, or why there are none."""


def answer_together(
    vault: Vault, facts: ReleaseTerms, requests: Sequence[ExplanationRequest]
) -> tuple[list[Outcome], list[Alert]]:
    """The four steps. Also gives the thresholds that charges have reached, to tell people of."""
    looked = look(vault, lambda accounts: ask(vault, accounts, facts, requests))
    drawn = draw(facts.release, requests, unanswered(looked))
    answers = settle_all(vault, looked, as_bytes(facts.release, drawn))
    outcomes = [
        each if isinstance(each, Exception) else _explained(facts.release, each, drawn.get(caller))
        for caller, each in enumerate(answers)
    ]
    return outcomes, alerts_of(answers)


def answer_alone(
    vault: Vault, questions: AccountQuestions, drawing: Callable[[], NoisyAnswer]
) -> Answer:
    """The same for one question whose answer is bytes; raises why there is none."""
    looked = look(vault, lambda _: [questions])
    drawn = {0: {0: drawing()}} if unanswered(looked) else {}
    (found,) = settle_all(vault, looked, drawn)
    if isinstance(found, Exception):
        raise found
    return found[0]


# --- 1: check ------------------------------------------------------------------------------------


def ask(
    vault: Vault, accounts: AccountOf, facts: ReleaseTerms, requests: Sequence[ExplanationRequest]
) -> Asked:
    """The questions that requests make, to accounts that protect what the release speaks about."""
    return [_asked(vault, accounts, facts, each) for each in requests]


def _asked(
    vault: Vault, accounts: AccountOf, facts: ReleaseTerms, request: ExplanationRequest
) -> AccountQuestions | Exception:
    if request.payer is None:
        return Refused(
            "this release costs privacy budget: name the account that pays (`voile budget open` "
            "opens one)"
        )
    try:
        request.rows.check()
        account = accounts(request.payer)
    except InvalidInput as error:
        return error
    return caught(facts.questions, vault, account, request)


def look(vault: Vault, asking: Callable[[AccountOf], Asked]) -> list[Looked | Exception]:
    """What was answered before, and whether the rest would fit; of one snapshot.

    It holds up no writer, because what it finds is looked at again in step 3.
    In the writer's turn only what is to be written down, a refusal, and what a snapshot cannot
    tell: one may be older than a checkpoint that was kept since.
    """
    remembered = RememberedAccounts(vault)
    asked: Asked | None = None
    with suppress(NotRemembered):
        asked = asking(remembered)
    asked, looked = vault.storage.read_snapshot(
        lambda t: _look_first(vault, ReadOnce(t), asking, remembered, asked)
    )
    if looked is not None:
        return looked
    return vault.storage.submit(lambda t: _look_and_record(vault, t, asked))


def _look_first(
    vault: Vault,
    t: ReadOnce,
    asking: Callable[[AccountOf], Asked],
    remembered: RememberedAccounts,
    asked: Asked | None,
) -> tuple[Asked, list[Looked | Exception] | None]:
    """What was found, unless it takes the writer's turn."""
    if asked is not None:
        read_ahead(vault, t, _sound(asked), append=False)
    if asked is None or not remembered.hold(t):
        asked = asking(lambda name: vault.ledger.account(t, name))
    with suppress(VerificationFailed):
        looked = _look_all(vault, t, asked)
        if not any(map(is_recorded, looked)):
            return asked, looked
    return asked, None


def _sound(asked: Asked) -> list[AccountQuestions]:
    return [each for each in asked if not isinstance(each, Exception)]


def look_now(vault: Vault, questions: AccountQuestions) -> Looked | Exception:
    """What is stored already, or why this would be refused as things stand; only reads."""
    return vault.storage.read_snapshot(lambda t: _look_one(vault, t, questions))


def _look_all(vault: Vault, t: Reader, asked: Asked) -> list[Looked | Exception]:
    vault.log.check(t)
    return [each if isinstance(each, Exception) else _look_one(vault, t, each) for each in asked]


def _look_and_record(vault: Vault, t: Transaction, asked: Asked) -> list[Looked | Exception]:
    with grouped_writes(t) as t:
        renew_due(t, vault.ledger, vault.log)  # a period that is over refuses everything
        looked = _look_all(vault, t, asked)
        for questions, found in zip(asked, looked, strict=True):
            if is_recorded(found) and not isinstance(questions, Exception):
                assert isinstance(found, Refused)
                record_refusal(vault, t, questions, found)
        return looked


def _look_one(vault: Vault, t: Reader, questions: AccountQuestions) -> Looked | Exception:
    found = look_up(vault, t, questions)
    return found if isinstance(found, Exception) else (questions, found)


def unanswered(looked: Sequence[Looked | Exception]) -> Missing:
    """What has to be drawn."""
    return {
        caller: [number for number, stored in enumerate(each[1]) if stored is None]
        for caller, each in enumerate(looked)
        if not isinstance(each, Exception) and None in each[1]
    }


# --- 2: draw -------------------------------------------------------------------------------------


def draw(
    release: Release[Explanation], requests: Sequence[ExplanationRequest], missing: Missing
) -> Explanations:
    """Explanations of single records or of whole requests, with what is said about them."""
    if release.part is RowPart.EXPLAINED and len(missing) > 1:
        together = caught(_drawn_together, release, requests, missing)
        if not isinstance(together, Exception):
            return together
    return {
        caller: caught(_drawn_alone, release, requests[caller], numbers)
        for caller, numbers in missing.items()
    }


def _drawn_together(
    release: Release[Explanation], requests: Sequence[ExplanationRequest], missing: Missing
) -> Explanations:
    """Records are drawn one by one, whoever asks for them: one call of the explainer for all."""
    parts = [chosen(requests[caller].rows.rows, numbers) for caller, numbers in missing.items()]
    whole, first = release.draw(stacked(parts)), 0
    found: dict[int, Mapping[int, Explanation] | Exception] = {}
    for caller, numbers in missing.items():
        own = whole[first : first + len(numbers)]
        found[caller] = _row_by_row(own, requests[caller], numbers)
        first += len(numbers)
    return found


def _drawn_alone(
    release: Release[Explanation], request: ExplanationRequest, numbers: Sequence[int]
) -> dict[int, Explanation]:
    rows = request.rows
    if release.part is not RowPart.EXPLAINED:
        return {0: settled_notes(release.draw(rows.rows), *rows.notes)}
    return _row_by_row(release.draw(chosen(rows.rows, numbers)), request, numbers)


def _row_by_row(
    drawn: Explanation, request: ExplanationRequest, numbers: Sequence[int]
) -> dict[int, Explanation]:
    explanation = settled_notes(drawn, *notes_among(request.rows.notes, numbers))
    parts = [explanation] if len(numbers) == 1 else explanation
    return dict(zip(numbers, parts, strict=True))


def as_bytes(release: Release[Explanation], drawn: Explanations) -> Draws:
    """As they are kept."""
    return {
        caller: each if isinstance(each, Exception) else caught(_all_to_keep, release, each)
        for caller, each in drawn.items()
    }


def _all_to_keep(
    release: Release[Explanation], drawn: Mapping[int, Explanation]
) -> dict[int, NoisyAnswer]:
    return {number: to_keep(release, each) for number, each in drawn.items()}


def to_keep(release: Release[Any], made: Any) -> NoisyAnswer:
    """The log commits to an explanation as any copy of it proves, to anything else as kept."""
    committed = explanation_bytes(made) if isinstance(made, Explanation) else b""
    return NoisyAnswer(release.codec.pack(made), committed)


# --- 3: settle -----------------------------------------------------------------------------------


def settle_all(vault: Vault, looked: Sequence[Looked | Exception], drawn: Draws) -> list[Answers]:
    """One transaction checks again, charges, keeps and records; for each caller, what may leave now
    that it is committed.

    Args:
        drawn: answers to what was missing; nothing is written if there are none.
    """
    settled = dict[int, Sequence[ChargedAnswer] | Exception]()
    if drawn:
        settled = vault.storage.submit(lambda t: _settle(vault, t, looked, drawn))
    return [_leaving(vault, each, settled.get(n)) for n, each in enumerate(looked)]


def _settle(
    vault: Vault, t: Transaction, looked: Sequence[Looked | Exception], drawn: Draws
) -> dict[int, Sequence[ChargedAnswer] | Exception]:
    outcomes: dict[int, Sequence[ChargedAnswer] | Exception] = {}
    asked = {n: each[0] for n, each in enumerate(looked) if not isinstance(each, Exception)}
    with grouped_writes(t) as t:
        read_ahead(vault, t, [asked[caller] for caller in drawn], append=True)
        for caller, answers in drawn.items():
            if isinstance(answers, Exception):
                outcomes[caller] = answers
            else:
                outcomes[caller] = settle(vault, t, asked[caller], answers)
    return outcomes


def _leaving(
    vault: Vault, looked: Looked | Exception, settled: Sequence[ChargedAnswer] | Exception | None
) -> Answers:
    if isinstance(looked, Exception):
        return looked
    if isinstance(settled, Exception):
        return settled
    questions, found = looked
    given = settled or [stored for stored in found if stored is not None]
    return tuple(
        leaving(vault, request, asked, each)
        for request, asked, each in zip(questions.requests, questions.asked, given, strict=True)
    )


def alerts_of(answers: Sequence[Answers]) -> list[Alert]:
    """Thresholds that were reached."""
    given = [each for each in answers if not isinstance(each, Exception)]
    return [alert for each in given for answer in each for alert in answer.alerts]


# --- 4: release ----------------------------------------------------------------------------------


def _explained(
    release: Release[Explanation],
    answers: Sequence[Answer],
    drawn: Mapping[int, Explanation] | Exception | None,
) -> ReleasedExplanation:
    """What was drawn here, unless somebody else's answer was there first."""
    assert not isinstance(drawn, Exception)
    entries = []
    for number, answer in enumerate(answers):
        own = None if answer.replayed or drawn is None else drawn.get(number)
        explanation = release.codec.unpack(answer.content) if own is None else own
        entries.append(
            LoggedAnswer(
                explanation,
                answer.question.canonical_bytes,
                answer.record,
                answer.charge,
                answer.replayed,
                answer.nonces,
            )
        )
    return ReleasedExplanation(joined([entry.explanation for entry in entries]), tuple(entries))


def caught(
    make: Callable[Given, Made], *given: Given.args, **named: Given.kwargs
) -> Made | Exception:
    """What one caller gets wrong is its own outcome."""
    try:
        return make(*given, **named)
    except Exception as error:
        return error


# --- Whether an account can pay for a release, and which share of it that takes; only reads ------


def affordable(
    vault: Vault, questions: AccountQuestions, payer: str, event: PrivacyEvent
) -> tuple[str, ...]:
    """What is to be said to somebody who asks beforehand."""
    looked = look_now(vault, questions)
    if isinstance(looked, Exception):
        return (f"would be refused: {looked}",)
    if all(stored is not None for stored in looked[1]):
        return (ANSWERED_BEFORE,)
    below = any(each.question.account != payer for each in looked[0].requests)
    pairs = zip(looked[0].requests, looked[1], strict=True)
    unnamed = sum(stored is None and each.question.account == payer for each, stored in pairs)
    event = met_by_one_record(event, unnamed, named=below)
    return (vault.storage.read_snapshot(lambda t: _share(vault, t, payer, event, below)),)


@dataclass(frozen=True)
class BudgetUse:
    """What an answer would use of an account.

    Args:
        account: who would pay.
        share: of the budget, between 0 and 1; of each record's own, where records pay.
        before: the share that is used already.
        refused_because: why it does not fit; empty if it does.
    """

    account: str
    share: float
    before: float
    refused_because: str = ""


def met_by_one_record(event: PrivacyEvent, unnamed: int, *, named: bool) -> PrivacyEvent:
    """What one record can meet in a call: each row without a name may be its own, and so may one
    with a name.
    """
    times = unnamed + (named and unnamed > 0)
    return Repeated(event, times) if times > 1 else event


def budget_use(
    vault: Vault, payer: str, event: PrivacyEvent | None, *, unnamed: int = 0, named: bool = False
) -> BudgetUse | None:
    """What this would use, from public facts; None if it costs nothing.

    Args:
        unnamed: how many rows without a name are charged one by one, all to the payer itself.
        named: whether there are rows with a name, which pay below it.
    """
    if event is None:
        return None
    event = met_by_one_record(event, unnamed, named=named)
    account = vault.account(payer)
    if account.measure is None:
        return None
    share = consumed(account.measure.cost(event), account.budgets)
    if account.is_parallel and not unnamed:  # each record pays from an account of its own
        return BudgetUse(payer, share, 0.0)
    found = vault.storage.read_snapshot(lambda t: would_cost(vault.ledger, t, payer, event))
    return BudgetUse(payer, share, found.consumed[0][1], found.refused_because)


def _share(vault: Vault, t: Reader, payer: str, event: PrivacyEvent, below: bool) -> str:
    """In words; `below` says that records pay, each from its own account below the payer's."""
    account = vault.ledger.account(t, payer)
    if below and account.measure is not None:
        own = consumed(account.measure.cost(event), account.budgets)
        return f"fits: uses {own:.1%} of the budget of each record in account {payer!r}"
    found = would_cost(vault.ledger, t, payer, event)
    _, before, after = found.consumed[0]
    tight = max(found.consumed, key=lambda each: each[2])
    above = "" if tight[0] == payer else f"; {tight[0]!r} above it is then at {tight[2]:.1%}"
    return (
        f"fits: uses {after - before:.1%} of account {payer!r}; {before:.1%} is used so far, and "
        f"{1 - after:.1%} would be left{above}"
    )
