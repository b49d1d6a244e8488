"""One question and its charge: the steps of the walk, each inside a transaction of the caller's.

1. Is the log the one we know? Was it asked before? Then the stored answer leaves, at no cost. Else:
   would it fit? Public facts only, read from a snapshot; a refusal is recorded and nothing is
   computed.
2. The answer is drawn in memory.
3. One transaction looks again, charges the account and all above it, keeps the answer under its
   keyed digest and appends the log's record. Who loses a race for one question gets the answer of
   the winner, and its own draw is dropped.
4. Only now does anything leave, and only now are people told about thresholds.

A crash before the commit of step 3 released nothing and cost nothing; after it the answer is
charged, on record, and given again to whoever asks again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Final, Protocol, TypeAlias

from voile.app.budget import log_approval, opened_child_record
from voile.app.compliance.enforcement import (
    MeasureInForce,
    after_charge,
    after_refusal,
    check_rules,
    name_in_log,
    needs_approval,
    rules_in_force,
    shares,
)
from voile.app.compliance.enforcement import Question as RuledQuestion
from voile.app.explain.per_record import (
    accounts_to_carry,
    carried_mark,
    check_key_of_records,
)
from voile.core.errors import BudgetExceeded, InvalidInput, Refused
from voile.core.guarantee import Guarantee, RowPart
from voile.privacy.accounting.measures import Sums
from voile.privacy.events import Composed, PrivacyEvent
from voile.records.audit_log import Draft, Encoded, RefusalRecord, ReleaseRecord, guarantees_digest
from voile.records.audit_log.canonical import commitment_digest
from voile.records.ledger import (
    Account,
    Alert,
    Asked,
    Charge,
    ChargedAnswer,
    Grant,
    Question,
    check_fits,
    child_of,
)
from voile.records.ledger.event_text import event_for_log, event_text, written
from voile.records.storage import Reader, Transaction
from voile.records.stored_answers import CommitmentTerms, StoredAnswer
from voile.records.vault import Vault

Refusal: TypeAlias = Refused | InvalidInput
"""Why one caller is not answered; a fault of the database is everybody's, and is raised."""
_LONGEST_REASON: Final = 300


@dataclass(frozen=True, kw_only=True)
class Request:
    """What somebody wants released, before anything is computed.

    Args:
        question: everything the answer depends on.
        event: what releasing it costs, from public facts.
        guarantees: what the answer will promise; the first is the account's, and the headline.
        subject: which model, explainer or artefact is asked.
        purpose, caller, part, population: see `voile.records.ledger.Charge`.
    """

    question: Question
    event: PrivacyEvent
    guarantees: tuple[Guarantee, ...]
    subject: str
    purpose: str
    caller: str
    part: RowPart = RowPart.OTHER
    population: frozenset[bytes] = frozenset()

    def __post_init__(self) -> None:
        if not self.guarantees:
            raise InvalidInput("a release needs a guarantee to be charged and released")

    def charge(self, asked: Asked) -> Charge:
        """What the ledger charges for it, under the digest by which it recognises the question."""
        return Charge(
            account=self.question.account,
            event=self.event,
            protected=self.guarantees[0].protected,
            purpose=self.purpose,
            caller=self.caller,
            query=asked.digest,
            part=self.part,
            population=self.population,
        )


@dataclass(frozen=True)
class NoisyAnswer:
    """An answer in memory.

    Args:
        content: what is stored and given again, for example a saved explanation.
        committed: its canonical bytes, which the log commits to; the content itself if empty.
    """

    content: bytes
    committed: bytes = b""

    @cached_property
    def digest(self) -> bytes:
        """Of what the log commits to."""
        return hashlib.sha256(self.committed or self.content).digest()


@dataclass(frozen=True)
class Answer:
    """What leaves: charged, on record, and the same for whoever asks again.

    Args:
        question: what it answers, in the spelling that the record commits to.
        alerts: thresholds that its charge has reached.
        record: number of the record in the audit log.
        nonces: open the record's commitments in a receipt; for the person who asked.
    """

    question: Question
    content: bytes
    charge: str
    record: int
    replayed: bool
    nonces: dict[str, bytes] = field(repr=False)
    alerts: tuple[Alert, ...] = ()


class Settlement(Protocol):
    """What a door keeps of an answer, in the transaction that settles it."""

    def refuse(self, t: Reader) -> Refused | None:
        """Why nothing may be settled; asked before any write."""

    def keep(self, t: Transaction, entries: Sequence[tuple[str | None, int, bool]]) -> None:
        """Of each entry the charge, the number of its record, and whether it is given again."""


@dataclass(frozen=True)
class AccountQuestions:
    """What one caller asks at once: one question, or one for each of several protected records.

    All of it is answered, or none of it; callers never share an outcome.

    Args:
        account: who pays; a record without an account of its own gets one below it.
        requests: the questions, each with what it costs.
        asked, charges: how the ledger recognises each of them, and what it will charge.
        fresh: charge again, whatever was answered before.
        settlement: takes part in the transaction.
        quality: half-width of a released value over the width of the output, if that is known.
        coarser: this is what was offered in place of a more detailed level.
    """

    account: Account
    requests: tuple[Request, ...]
    asked: tuple[Asked, ...]
    charges: tuple[Charge, ...]
    fresh: bool = False
    settlement: Settlement | None = None
    quality: float | None = None
    coarser: bool = False

    @property
    def accounts(self) -> Iterator[str]:
        """Names of all accounts that are looked at."""
        yield self.account.name
        for each in self.requests:
            yield from each.question.accounts

    @classmethod
    def to_account(
        cls, vault: Vault, account: Account, requests: Iterable[Request], *, fresh: bool = False
    ) -> AccountQuestions:
        """Questions to an account, or to those of records below it that need not be there yet."""
        found = tuple(requests)
        asked = tuple(_recognised(vault, account, each) for each in found)
        charges = tuple(each.charge(known) for each, known in zip(found, asked, strict=True))
        return cls(account, found, asked, charges, fresh)


def _recognised(vault: Vault, parent: Account, request: Request) -> Asked:
    name = request.question.account
    account = parent if name == parent.name else child_of(parent, name)
    return vault.key.digest_question(request.question, account, request.caller)


# --- the steps ------------------------------------------------------------------------------------


def look_up(
    vault: Vault, t: Reader, questions: AccountQuestions
) -> list[ChargedAnswer | None] | Refusal:
    """Step 1: what was answered before, if the rest would fit; else why not. Only reads."""
    # A stored answer is free: giving the same noise again reveals nothing new.
    questions = _with_approval(vault, t, questions)
    found = _answered(vault, t, questions)
    ruled_out = _ruled_out(vault, t, questions, found)
    if ruled_out is not None:
        return ruled_out
    refused = _refusal(vault, t, questions, found, looking=True)
    return found if refused is None else refused


def settle(
    vault: Vault, t: Transaction, questions: AccountQuestions, drawn: Mapping[int, NoisyAnswer]
) -> list[ChargedAnswer] | Refusal:
    """Step 3, in a transaction of the caller's: nothing may leave before it is committed.

    Whether everything fits is known before the first write: a single charge on an open account
    says so itself, anything else is checked here. So a refusal changes nothing but the log, opens
    no account, and touches nobody else in the transaction. If a charge were refused all the same
    after another one was written, that is raised, and nothing of the transaction is kept.

    Args:
        drawn: answers to the questions with these numbers; what was answered before needs none.
    """
    # Looked up again: since step 1 somebody may have got the same answer. Theirs is given, and what
    # was drawn here is dropped unseen. Two draws would be two releases for one charge.
    if questions.settlement is not None and (told := questions.settlement.refuse(t)) is not None:
        return told
    questions = _with_approval(vault, t, questions)
    found = _answered(vault, t, questions)
    if (ruled_out := _ruled_out(vault, t, questions, found)) is not None:
        if is_recorded(ruled_out):
            record_refusal(vault, t, questions, ruled_out)
        return ruled_out
    if len(found) == 1 and vault.ledger.is_open(t, questions.requests[0].question.account):
        try:
            return _settled(vault, t, questions, found, drawn)
        except BudgetExceeded as exceeded:
            record_refusal(vault, t, questions, exceeded)
            return exceeded
    refused = _refusal(vault, t, questions, found, looking=False)
    if isinstance(refused, BudgetExceeded):
        record_refusal(vault, t, questions, refused)
    return _settled(vault, t, questions, found, drawn) if refused is None else refused


def _settled(
    vault: Vault,
    t: Transaction,
    questions: AccountQuestions,
    found: Sequence[ChargedAnswer | None],
    drawn: Mapping[int, NoisyAnswer],
) -> list[ChargedAnswer]:
    given: dict[object, ChargedAnswer] = {}
    settled: list[ChargedAnswer] = []
    for number, stored in enumerate(found):
        key = _told_apart(questions, number)
        again = given.get(key)  # named twice: answered once
        if again is None:
            given[key] = stored or _pay(vault, t, questions, number, drawn[number])
        settled.append(given[key] if again is None else again._replace(grant=None))
    if questions.settlement is not None:
        questions.settlement.keep(t, [(e.charge, e.record, e.replayed) for e in settled])
    return settled


def _answered(vault: Vault, t: Reader, questions: AccountQuestions) -> list[ChargedAnswer | None]:
    asked = recognisable(vault, t, questions)
    if not asked:
        return [None] * len(questions.asked)
    stored = dict(zip(asked, vault.ledger.answered_all(t, asked), strict=True))
    return [stored.get(each) for each in questions.asked]


def recognisable(vault: Vault, t: Reader, questions: AccountQuestions) -> list[Asked]:
    """Questions that may have been answered before: an account was there that may have paid."""
    if questions.fresh:
        return []
    return [
        asked
        for request, asked in zip(questions.requests, questions.asked, strict=True)
        if any(vault.ledger.is_open(t, name) for name in request.question.accounts)
    ]


def _ruled_out(
    vault: Vault,
    t: Reader,
    questions: AccountQuestions,
    found: Sequence[ChargedAnswer | None],
) -> Refused | None:
    """Why a measure in force forbids the new charges among these."""
    if not rules_in_force(t).rules:
        return None
    new = {_told_apart(questions, n) for n, stored in enumerate(found) if stored is None}
    asked = _for_rules(questions, questions.requests[0], questions.account.name, len(new))
    return check_rules(vault, t, asked)


def _with_approval(vault: Vault, t: Reader, questions: AccountQuestions) -> AccountQuestions:
    """The same; while a measure asks for it, a second person has to approve each charge."""
    if not rules_in_force(t).rules:
        return questions
    asked = _for_rules(questions, questions.requests[0], questions.account.name, 1)
    if not needs_approval(vault, t, asked):
        return questions
    charges = tuple(replace(each, needs_approval=True) for each in questions.charges)
    return replace(questions, charges=charges)


def _for_rules(
    questions: AccountQuestions, request: Request, account: str, count: int
) -> RuledQuestion:
    return RuledQuestion(
        account,
        request.caller,
        count,
        request.guarantees[0].epsilon,
        request.subject,
        questions.quality,
        coarser=questions.coarser,
    )


def is_recorded(refused: object) -> bool:
    """Whether a refusal is written down: those of budgets and of measures, not of mistakes."""
    return isinstance(refused, BudgetExceeded | MeasureInForce)


def _told_apart(questions: AccountQuestions, number: int) -> object:
    """Equal for questions that get one answer: never two fresh ones."""
    # Fresh noise is paid for each time; a repeated question within one call is one release.
    return number if questions.fresh else questions.asked[number].digest


def _refusal(
    vault: Vault,
    t: Reader,
    questions: AccountQuestions,
    found: Sequence[ChargedAnswer | None],
    *,
    looking: bool,
) -> Refusal | None:
    """Whether all new charges fit one after the other: unnamed rows leave less for every record."""
    new: dict[object, Charge] = {}
    carried: set[str] = set()
    for number, (request, stored) in enumerate(zip(questions.requests, found, strict=True)):
        key = _told_apart(questions, number)
        if stored is None and key not in new:
            before = accounts_to_carry(vault, t, request.question)
            # What was spent under an earlier spelling of a name counts once, with the first charge.
            owed = [events for name, events in before.items() if name not in carried]
            carried.update(before)
            new[key] = _with_earlier(questions.charges[number], owed)
    try:
        charged = [each.account for each in new.values()]
        check_key_of_records(vault, t, questions.account, charged, looking=looking)
        check_fits(vault.ledger, t, questions.account, new.values())
    except (InvalidInput, Refused) as refused:
        return refused
    return None


def _pay(
    vault: Vault, t: Transaction, questions: AccountQuestions, number: int, drawn: NoisyAnswer
) -> ChargedAnswer:
    """Charge, keep the answer, append the record; open the account of a record that has none.

    What the record has spent under earlier spellings of its name is part of its first charge.
    """
    request, asked = questions.requests[number], questions.asked[number]
    before = accounts_to_carry(vault, t, request.question)
    ruled = bool(rules_in_force(t).rules)

    def write_record(grant: Grant) -> int:
        record = _record(vault, request, asked, grant, drawn, ruled=ruled)
        number = vault.log.append_encoded(t, record).number
        if grant.approval is not None:
            log_approval(t, vault.log, grant.approval, "spent", grant.time)
        return number

    def open_below(parent: Account, name: str) -> None:
        done = vault.ledger.open_child(t, parent, name, caller=request.caller)
        vault.log.append_encoded(t, opened_child_record(parent, done))

    name = request.question.account
    if not vault.ledger.is_open(t, name):
        open_below(questions.account, name)
    used = shares(vault, t, name)
    settled = vault.ledger.settle(
        t,
        _with_earlier(questions.charges[number], before.values()),
        asked,
        drawn.content,
        committed=drawn.digest,
        fresh=True,  # that nothing was stored is known
        write_record=write_record,
    )
    if ruled and settled.grant is not None:
        told = _for_rules(questions, request, name, 1)
        time = int(settled.grant.time)
        after_charge(vault, t, told, charge=settled.charge, time=time, before=used)
    for old in before:
        open_below(vault.ledger.account(t, old), carried_mark(old))
    return settled


def _with_earlier(charge: Charge, spent: Iterable[tuple[PrivacyEvent, ...]]) -> Charge:
    """The charge, together with events that accounts under other spellings have paid for."""
    more = [event for events in spent for event in events]
    return replace(charge, event=Composed((charge.event, *more))) if more else charge


def leaving(vault: Vault, request: Request, asked: Asked, settled: ChargedAnswer) -> Answer:
    """What goes out, once it is committed.

    Nonces come from what is kept and the key outside the database: a receipt can be issued again.
    """
    stored = StoredAnswer(vault.log.origin, settled.terms, settled.kept)
    nonces = stored.nonces(vault.key)
    question = request.question.spelled(settled.kept.query, asked)
    alerts = settled.grant.alerts if settled.grant else ()
    return Answer(
        question, settled.answer, settled.charge, settled.record, settled.replayed, nonces, alerts
    )


def record_refusal(
    vault: Vault, t: Transaction, questions: AccountQuestions, refused: Refused
) -> None:
    """Somebody asked, and was told that the budget, or a measure in force, does not allow it."""
    first, account = questions.requests[0], questions.account.name
    headline = first.guarantees[0]
    epsilon = headline.epsilon
    if isinstance(refused, MeasureInForce):
        epsilon = refused.forbidden.epsilon
    caller = name_in_log(vault, first.caller) if rules_in_force(t).rules else None
    record = RefusalRecord(
        time=int(vault.ledger.now()),
        account=account,
        reason=str(refused)[:_LONGEST_REASON],
        epsilon=epsilon,
        delta=headline.delta,
        caller=caller,
    )
    vault.log.append(t, record)
    if caller is not None:
        after_refusal(vault, t, account, caller=caller, epsilon=epsilon, time=record.time)


def _record(
    vault: Vault,
    request: Request,
    asked: Asked,
    grant: Grant,
    drawn: NoisyAnswer,
    *,
    ruled: bool = False,
) -> Encoded:
    """The record of a charge, as bytes. It states the cost that was charged.

    Args:
        ruled: rules are in force, which count what a caller does.
    """
    # The log holds commitments, not digests: without the nonce nobody can test a guess of question
    # or answer against it.
    committing = CommitmentTerms(
        vault.log.origin, grant.terms, grant.number, asked.digest, drawn.digest
    )
    nonces = committing.nonces(vault.key)
    draft = _draft(request.subject, request.guarantees, grant.event, grant.cost, ruled)
    who = {"caller": name_in_log(vault, request.caller)} if ruled else {}
    return draft.filled(
        time=int(grant.time),
        account=grant.account.name,
        charge=grant.charge,
        query=commitment_digest("query", nonces["query"], request.question.canonical_bytes),
        answer=commitment_digest("answer", nonces["answer"], drawn.committed or drawn.content),
        **who,
    )


@lru_cache(maxsize=256)
def _draft(
    subject: str,
    guarantees: tuple[Guarantee, ...],
    event: PrivacyEvent,
    cost: Sums,
    ruled: bool,
) -> Draft:
    """A service promises the same few things again and again: what its records have in common."""
    headline = guarantees[0]
    record = ReleaseRecord(
        time=0,
        account="",
        charge="",
        subject=subject,
        epsilon=headline.epsilon,
        delta=headline.delta,
        **headline.protected.texts,
        mechanism=headline.mechanism,
        guarantees=guarantees_digest(guarantees),
        query=bytes(32),
        answer=bytes(32),
        event=event_for_log(event_text(event)),
        cost=written(cost) if cost else None,
        caller="" if ruled else None,
    )
    who = ("caller",) if ruled else ()
    return Draft(record, "time", "account", "charge", "query", "answer", *who)
