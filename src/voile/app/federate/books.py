"""What a federation does goes into ledger and log: each client's own, and the server's.

A client charges its own account before it trains; the record of the charge is in its log in the
same transaction. Its account is a plan: the list of all participations that its noise was
calibrated for. A server that asks once too often, or for another stage, is refused by that list.
The account is opened in the transaction of the first charge: there is none that was never charged.
"""

from __future__ import annotations

import hashlib
import logging
import math
import secrets
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final, NamedTuple

from voile.app.budget import opened_record
from voile.app.federate.accepts import Accepts
from voile.app.federate.trust import trust_records, trusted_hash
from voile.core.errors import BudgetExceeded, Refused
from voile.core.guarantee import Protected, RowPart
from voile.federation import AnnouncedRound, Booking, Participation, RoundReport
from voile.federation.chain import check_chain
from voile.pipelines.trusted_averaging import TrustRule
from voile.privacy.events import PrivacyEvent
from voile.records import audit_log
from voile.records.audit_log import (
    AbsenceRecord,
    FederationRoundRecord,
    RefusalRecord,
    RoundShownRecord,
)
from voile.records.ledger import Account, Charge, Entry, Opening, PlannedSpending, recent_charges
from voile.records.ledger.event_text import event_for_log, event_text, written
from voile.records.storage import Part, Reader, Table, Transaction
from voile.records.vault import Vault

# --- Which rounds of a federation are on record: one row for each, and one for the last ----------
# At the server, those that it has written down; at a party, those that it was shown in a secure
# sum. The audit log holds the rounds themselves. These rows say in constant time whether a round is
# there already, and which one the next is chained to; they are written in the transaction of the
# record.


_LAST: Final = 0
"""Rounds count from one; the row of this number repeats the round that was written last."""


class WrittenRound(NamedTuple):
    """A round on record: digest of its model, and the hash that the next one is chained to.

    At a party, which is shown rounds and no models, `model` is what the round itself is chained to.
    """

    federation: str
    round: int
    model: bytes
    published_hash: bytes


ROUNDS: Final = Table("federation_rounds", WrittenRound, key=("federation", "round"))
PART: Final = Part("federation", (ROUNDS,))


def is_written(t: Reader, federation: str, number: int, model: bytes) -> bool:
    """Whether this very round is on record."""
    found = t.get(ROUNDS, federation, number)
    return found is not None and found.model == model


def last_hash(t: Reader, federation: str) -> bytes | None:
    """What the next round is chained to; None before the first."""
    found = round_on_record(t, federation, _LAST)
    return None if found is None else found.published_hash


def round_on_record(t: Reader, federation: str, number: int) -> WrittenRound | None:
    """None if it is not there."""
    return t.get(ROUNDS, federation, number)


def remember(t: Transaction, written: WrittenRound) -> None:
    """This round was written down just now, and is the last one."""
    for row in (written, written._replace(round=_LAST)):
        known = t.get(ROUNDS, row.federation, row.round) is not None
        (t.replace if known else t.insert)(ROUNDS, row)


# --------------------------------------------------------------------------------------------------


_LONGEST_REASON = 300

_log = logging.getLogger(__name__)
_PIN_EVERY = 1.0
"""Seconds."""


@dataclass(frozen=True)
class Promise:
    """What a client promises for the whole federation, which is named after its data."""

    protected: Protected
    epsilon: float
    delta: float

    @property
    def federation(self) -> str:
        return self.protected.dataset


def account_name(client: str, promise: Promise) -> str:
    return f"{promise.federation}: {client}"


def purpose_of(stage: str, number: int) -> str:
    """What a participation in a round is charged for."""
    return f"{stage}, round {number}"


def caller_of(federation: str, agreement: str | None) -> str:
    """In whose name participations are charged."""
    return federation if agreement is None else f"{federation}, {agreement}"


def _where(participation: Participation) -> str:
    return purpose_of(participation.stage, participation.round)


def _hour(seconds: float) -> int:
    """Times in the logs of a federation are full hours.

    How long a client trains depends on how many records were drawn, which the accounting takes for
    unseen; and its log is published.
    """
    return int(seconds) // 3600 * 3600


class _TakenBack(Exception):
    """Undoes what a transaction has tried."""


@dataclass(frozen=True)
class ClientBooks:
    """The books of one client: its own ledger grants or refuses, whatever a server asks for.

    The name of a booking is random and stands in the journal as the charge's question, so a stored
    update that was paid for from other books is not taken for one of these.

    Args:
        planned: all participations that the promise was calibrated for.
        agreement: the digest of what was agreed on.
        accepts: what the client accepts; whatever is promised, if None.
    """

    books: Vault
    client: str
    promise: Promise
    planned: tuple[PrivacyEvent, ...] = field(repr=False)
    agreement: str | None = None
    accepts: Accepts | None = None
    _pinned: list[float] = field(default_factory=list, init=False, repr=False, compare=False)

    @property
    def account(self) -> str:
        return account_name(self.client, self.promise)

    def before_joining(self) -> None:
        """What the first charge does before it charges, done and taken back."""
        with suppress(_TakenBack):
            self.books.storage.submit(self._try_opening)

    def _try_opening(self, t: Transaction) -> None:
        self._ensure_open(t)
        raise _TakenBack

    def before_participation(self, participation: Participation) -> Booking:
        """Charge and write down, in one transaction; or write down the refusal, and refuse.

        The first charge opens the account; if it is refused, the opening is taken back with it.
        """
        if participation.event is None:
            raise Refused(
                f"{participation.stage!r} has no privacy guarantee, but {self.client!r} has "
                f"promised its rows (ε = {self.promise.epsilon:g}, δ = {self.promise.delta:g})"
            )
        event = participation.event
        booking = Booking(secrets.token_hex(32), self.account)
        try:
            self.books.storage.submit(lambda t: self._charge(t, participation, event, booking))
        except BudgetExceeded as refused:
            record = self._refusal(refused)
            self.books.storage.submit(lambda t: self.books.log.append(t, record))
            self._sign()
            raise
        self._pin()
        return booking

    def _pin(self) -> None:
        """Sign and pin what was charged, before an update leaves: books that are set back later,
        even to before the first round, do not extend the pinned checkpoint, and are refused.

        The first charge always; of those within a second the first, which keeps many short rounds
        on one machine fast.
        """
        now = time.monotonic()
        if self._pinned and now - self._pinned[-1] < _PIN_EVERY:
            return
        self._pinned[:] = [now]
        self._sign()

    def _sign(self) -> None:
        kept = self.books.keep()
        if kept.error is not None:  # it is on record: a charge may leave, a refusal stands
            _log.warning("%s", kept)

    def holds(self, participation: Participation, booking: Booking) -> bool:
        """Whether the journal has a charge of this name, for this stage and round and event."""
        if booking.account != self.account or participation.event is None:
            return False
        wanted = booking.name, _where(participation), event_text(participation.event)
        charges = self.books.storage.read_snapshot(self._charges)
        return wanted in {(each.query.hex(), each.purpose, each.event) for each in charges}

    def before_round(self, announced: AnnouncedRound) -> None:
        """Into the log, whatever it says; then compared with what was shown before."""
        refused = self.books.storage.submit(lambda t: self._show(t, announced))
        if refused is not None:
            raise refused

    def _show(self, t: Transaction, announced: AnnouncedRound) -> Refused | None:
        federation = f"{self.promise.federation}: {announced.stage}"
        link = bytes.fromhex(announced.link)
        record = RoundShownRecord(
            time=_hour(self.books.ledger.now()),
            federation=self.promise.federation,
            stage=announced.stage,
            round=announced.round,
            previous=bytes.fromhex(announced.previous),
            link=link,
            begun=bytes.fromhex(announced.begun),
            signature=announced.signature.hex(),
            agreement=announced.agreement,
        )
        self.books.log.append(t, record)
        same, before, after = (
            round_on_record(t, federation, announced.round + step) for step in (0, -1, 1)
        )
        try:
            check_chain(
                announced,
                same and same.published_hash.hex(),
                before and before.published_hash.hex(),
                after and after.model.hex(),
            )
        except Refused as refused:
            return refused
        if same is None:
            remember(t, WrittenRound(federation, announced.round, record.previous, link))
        return None

    def _charges(self, t: Reader) -> list[Entry]:
        ledger, account = self.books.ledger, self.account
        known = ledger.is_open(t, account)
        return recent_charges(ledger, t, account, since=-math.inf) if known else []

    def _participations(self, t: Reader) -> list[Entry]:
        """Without what the party has released itself, once the model was trained."""
        return [each for each in self._charges(t) if each.part == RowPart.TRAINING]

    def _ensure_open(self, t: Transaction) -> None:
        """The account is open for this promise and this plan, and the client accepts it.

        A federation that is resumed finds its account. One that was charged for another promise,
        plan or agreement is refused: arrays made under one promise are never shown under another,
        and rounds of two agreements never together. One that was never charged gets other terms.
        """
        ledger, name = self.books.ledger, self.account
        found = ledger.account(t, name) if ledger.is_open(t, name) else None
        if found is None or not self._is_agreed(found):
            if found is not None and not ledger.is_unused(t, name):
                raise Refused(
                    f"{self.client!r} has opened its account {name!r} for (ε = {found.epsilon:g}, "
                    f"δ = {found.delta:g}), {found.protected}, and another plan of training; go on "
                    "with the old settings, or give the new federation a name and rows of its own"
                )
            act = ledger.open if found is None else ledger.reopen
            done = act(t, self._opening, caller=self.client)
            self.books.log.append(t, replace(opened_record(done), time=_hour(done.time)))
        elif any(each.caller != self._caller for each in self._participations(t)):
            raise Refused(
                f"{self.client!r} has taken part in {self.promise.federation!r} under another "
                "agreement: go on with that one (schema, sizes, keys, promise and rounds as they "
                "were), or give the new federation a name of its own"
            )
        if self.accepts is not None:
            self.accepts.check_ledger(self.client, ledger.nodes(t))

    def _is_agreed(self, found: Account) -> bool:
        promise = self.promise
        wanted = promise.epsilon, promise.delta, promise.protected, Counter(self.planned)
        return (found.epsilon, found.delta, found.protected, Counter(found.plan)) == wanted

    @cached_property
    def _opening(self) -> Opening:
        promise = self.promise
        return Opening(
            name=self.account,
            protected=promise.protected,
            epsilon=promise.epsilon,
            delta=promise.delta,
            spending=PlannedSpending(self.planned),
        )

    @property
    def _caller(self) -> str:
        return caller_of(self.promise.federation, self.agreement)

    def _charge(
        self, t: Transaction, participation: Participation, event: PrivacyEvent, booking: Booking
    ) -> None:
        self._ensure_open(t)
        charge = Charge(
            account=self.account,
            event=event,
            protected=self.promise.protected,
            purpose=_where(participation),
            caller=self._caller,
            query=bytes.fromhex(booking.name),
            part=RowPart.TRAINING,
        )
        grant = self.books.ledger.charge(t, charge)
        record = audit_log.ParticipationRecord(
            time=_hour(grant.time),
            account=self.account,
            charge=grant.charge,
            federation=self.promise.federation,
            stage=participation.stage,
            round=participation.round,
            epsilon=self.promise.epsilon,
            delta=self.promise.delta,
            **charge.protected.texts,
            event=event_for_log(event_text(event)),
            cost=written(grant.cost) if grant.cost else None,
            agreement=self.agreement,
        )
        self.books.log.append(t, record)

    def _refusal(self, refused: BudgetExceeded) -> RefusalRecord:
        return RefusalRecord(
            time=_hour(self.books.ledger.now()),
            account=self.account,
            reason=str(refused)[:_LONGEST_REASON],
            epsilon=self.promise.epsilon,
            delta=self.promise.delta,
        )


@dataclass(frozen=True)
class ServerBooks:
    """The books of the server: one record a round, and one for each client that fell out."""

    books: Vault
    promise: Promise
    agreement: str | None = None
    trust: TrustRule | None = None
    """Of a trusted federation, whose rounds have a record of trust and reward for each client."""

    def after_round(self, report: RoundReport) -> None:
        """Write the round down; told twice after a crash, it is written once."""
        self.books.storage.submit(lambda t: self._write(t, report))

    def _write(self, t: Transaction, report: RoundReport) -> None:
        federation = f"{self.promise.federation}: {report.stage}"
        model = hashlib.sha256(report.digest.encode()).digest()
        if is_written(t, federation, report.round, model):
            return
        now, previous = _hour(self.books.ledger.now()), last_hash(t, federation)
        for client, outcome in report.outcomes:
            if not outcome.counts:
                absence = AbsenceRecord(
                    time=now,
                    federation=federation,
                    round=report.round,
                    client=client,
                    outcome=outcome.value,
                    agreement=self.agreement,
                )
                self.books.log.append(t, absence)
        if self.trust is None:
            published = hashlib.sha256(model + (previous or b"")).digest()
        else:
            published = trusted_hash(report, previous)
            for each in trust_records(
                report, self.trust, federation=federation, time=now, agreement=self.agreement
            ):
                self.books.log.append(t, each)
        record = FederationRoundRecord(
            time=now,
            federation=federation,
            round=report.round,
            clients=sum(outcome.counts for _, outcome in report.outcomes),
            epsilon=self.promise.epsilon,
            delta=self.promise.delta,
            model=model,
            published_hash=published,
            previous_hash=previous,
            agreement=self.agreement,
        )
        self.books.log.append(t, record)
        remember(t, WrittenRound(federation, report.round, model, record.published_hash))
