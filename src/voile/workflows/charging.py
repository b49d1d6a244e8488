"""One private answer, from the question to the receipt: the walk of DESIGN, in one place.

1. Is the log the one we know? Was it asked before? Then the stored answer leaves, at no cost. Else:
   would it fit? Public facts only; a refusal is recorded and nothing is computed.
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
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Final

from voile.audit_log import PART as LOG_PART
from voile.audit_log import AuditLog, Refusal, Release, guarantees_digest
from voile.audit_log.commitments import digest as commitment
from voile.audit_log.records import Draft, Encoded
from voile.core.errors import BudgetExceeded, InvalidInput
from voile.core.guarantee import Guarantee
from voile.core.storage import Part, Storage, Transaction
from voile.ledger import PART as LEDGER_PART
from voile.ledger import (
    Account,
    Alert,
    Asked,
    Charge,
    Grant,
    Ledger,
    Question,
    ReplayKey,
    RowPart,
    Settled,
    would_cost,
)
from voile.ledger.event_text import event_for_log, event_text
from voile.ledger.measures import Sums, written
from voile.privacy.events import PrivacyEvent
from voile.workflows.nonces import Committing

PARTS: Final[tuple[Part, ...]] = (LEDGER_PART, LOG_PART)
"""Open the storage with these: ledger and log in one database commit together."""
_LONGEST_REASON: Final = 300
_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Request:
    """What somebody wants released, before anything is computed.

    Args:
        question: everything the answer depends on.
        event: what releasing it costs, from public facts.
        guarantees: what the answer will promise; the first is the account's, and the headline.
        subject: which model, explainer or artefact is asked.
        purpose, caller, part, population: see `voile.ledger.Charge`.
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
            raise InvalidInput("a release without a guarantee is not charged, and not released")


@dataclass(frozen=True)
class Drawn:
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
class Prepared:
    """A request, how the ledger recognises its question, and what it will charge."""

    request: Request
    asked: Asked
    charge: Charge


@dataclass(frozen=True)
class Answer:
    """What leaves: charged, on record, and the same for whoever asks again.

    Args:
        record: number of the record in the audit log.
        nonces: open the record's commitments in a receipt; for the person who asked.
    """

    content: bytes
    charge: str
    record: int
    replayed: bool
    nonces: dict[str, bytes] = field(repr=False)


@dataclass(frozen=True)
class Desk:
    """Where questions are answered: one database with ledger and log, and the key beside it.

    Args:
        log: best one that knows its kept checkpoint (`AuditLog.known_by`, `open_books`); without it
            a database that was set back is not noticed.
        on_alert: called after the commit that reached a threshold, at most once for each. What it
            raises is written to Python's log: the answer has been paid for and must leave.
    """

    storage: Storage
    ledger: Ledger
    log: AuditLog
    key: ReplayKey
    on_alert: Callable[[Alert], object] | None = None

    def answer(self, request: Request, draw: Callable[[], Drawn], *, fresh: bool = False) -> Answer:
        """Answer one question, or refuse it (`BudgetExceeded`)."""
        prepared, stored = self.storage.submit(lambda t: self._look(t, request, fresh))
        if isinstance(stored, BudgetExceeded):
            raise stored
        if stored is not None:
            return self.leaving(stored)
        drawn = draw()
        settled = self.storage.submit(lambda t: self.settle(t, prepared, drawn, fresh=fresh))
        if isinstance(settled, BudgetExceeded):
            raise settled
        if settled.grant is not None:
            self.tell(settled.grant.alerts)
        return self.leaving(settled)

    def account(self, name: str) -> Account:
        """What an account promises."""
        return self.storage.look(lambda t: self.ledger.account(t, name))

    def check_log(self) -> None:
        """Step 1 of what costs nothing: is the log the one we know?"""
        if self.log.kept is not None:
            self.storage.submit(self.log.check)

    def tell(self, alerts: Sequence[Alert]) -> None:
        """Call back, after the commit."""
        for alert in alerts if self.on_alert else ():
            assert self.on_alert is not None
            try:
                self.on_alert(alert)
            except Exception:
                _log.exception("the callback for %s failed; the alert is recorded", alert)

    def _look(
        self, t: Transaction, request: Request, fresh: bool
    ) -> tuple[Prepared, Settled | BudgetExceeded | None]:
        """Step 1."""
        self.log.check(t)
        account = self.ledger.account(t, request.question.account)
        prepared = self.prepare(request, account)
        stored = None if fresh else self.ledger.answered(t, prepared.asked)
        if stored is not None:
            return prepared, stored
        expected = would_cost(self.ledger, t, request.question.account, request.event)
        if expected.fits:
            return prepared, None
        try:
            self.ledger.charge(t, prepared.charge)
        except BudgetExceeded as refused:
            return prepared, self._refused(t, request, refused)
        raise AssertionError("what does not fit was granted")

    def prepare(self, request: Request, account: Account) -> Prepared:
        """What step 1 finds out about a request before it looks for answers and budgets."""
        asked = self.key.asked(request.question, account, request.caller)
        return Prepared(request, asked, _charge(request, asked))

    def settle(
        self, t: Transaction, prepared: Prepared, drawn: Drawn, *, fresh: bool = False
    ) -> Settled | BudgetExceeded:
        """Step 3, in a transaction of the caller's: nothing may leave before it is committed.

        A refusal changes nothing in the ledger, so its record can be kept.
        """
        try:
            return self.pay(t, prepared, drawn, fresh=fresh)
        except BudgetExceeded as refused:
            return self._refused(t, prepared.request, refused)

    def pay(
        self, t: Transaction, prepared: Prepared, drawn: Drawn, *, fresh: bool = False
    ) -> Settled:
        """Step 3 without the record of a refusal."""

        def write_record(grant: Grant) -> int:
            record = self.record(prepared, grant, drawn)
            return self.log.append_encoded(t, record).number

        return self.ledger.settle(
            t,
            prepared.charge,
            prepared.asked,
            drawn.content,
            committed=drawn.digest,
            fresh=fresh,
            write_record=write_record,
        )

    def record(self, prepared: Prepared, grant: Grant, drawn: Drawn) -> Encoded:
        """The record of a charge, as bytes. It states the cost that was charged."""
        asked, request = prepared.request.question.canonical_bytes, prepared.request
        committing = Committing(
            self.log.origin, grant.terms, grant.number, prepared.asked.digest, drawn.digest
        )
        nonces = committing.nonces(self.key)
        draft = _draft(request.subject, request.guarantees, request.event, grant.cost)
        return draft.filled(
            time=int(grant.time),
            account=grant.account.name,
            charge=grant.charge,
            query=commitment("query", nonces["query"], asked),
            answer=commitment("answer", nonces["answer"], drawn.committed or drawn.content),
        )

    def _refused(self, t: Transaction, request: Request, refused: BudgetExceeded) -> BudgetExceeded:
        self.record_refusal(t, request.question.account, request.guarantees[0], refused)
        return refused

    def record_refusal(
        self, t: Transaction, account: str, headline: Guarantee, refused: BudgetExceeded
    ) -> None:
        """Somebody asked, and was told that the budget does not allow it."""
        record = Refusal(
            time=int(self.ledger.now()),
            account=account,
            reason=str(refused)[:_LONGEST_REASON],
            epsilon=headline.epsilon,
            delta=headline.delta,
        )
        self.log.append(t, record)

    def leaving(self, settled: Settled) -> Answer:
        """What goes out, once it is committed.

        Nonces come from what is kept and the key outside the database: a receipt can be issued
        again.
        """
        kept = settled.kept
        committing = Committing(
            self.log.origin, settled.terms, kept.number, kept.query, kept.committed
        )
        nonces = committing.nonces(self.key)
        return Answer(settled.answer, settled.charge, settled.record, settled.replayed, nonces)


@lru_cache(maxsize=256)
def _draft(
    subject: str,
    guarantees: tuple[Guarantee, ...],
    event: PrivacyEvent,
    cost: Sums,
) -> Draft:
    """A service promises the same few things again and again: what its records have in common."""
    headline = guarantees[0]
    record = Release(
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
    )
    return Draft(record, "time", "account", "charge", "query", "answer")


def _charge(request: Request, asked: Asked) -> Charge:
    headline = request.guarantees[0]
    return Charge(
        account=request.question.account,
        event=request.event,
        protected=headline.protected,
        purpose=request.purpose,
        caller=request.caller,
        query=asked.digest,
        part=request.part,
        population=request.population,
    )
