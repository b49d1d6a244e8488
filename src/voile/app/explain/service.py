"""`ReleaseService`: an explanation with a guarantee, paid for, on record, and with a receipt.

Which of three ways a release goes:

- it costs nothing: one record for the call, the ledger is not touched (`free`);
- its rows are protected records: each row is charged by itself (`per_record`);
- anything else is one question with one charge.

The last two are the walk (`walk`). Strangers may share its steps (`answer_many`), never an outcome.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, Final

from voile.app.budget.verification import Evidence, verify
from voile.app.explain.charging import (
    AccountQuestions,
    Answer,
    NoisyAnswer,
    Request,
)
from voile.app.explain.questions import ExplanationRequest, ReleaseTerms, about_public, question
from voile.app.explain.released import LoggedAnswer, ReleasedExplanation, settled_notes
from voile.app.explain.rows import RowsToExplain
from voile.app.explain.walk import (
    Outcome,
    affordable,
    answer_alone,
    answer_together,
    ask,
    caught,
    to_keep,
)
from voile.core.errors import InvalidInput, Refused
from voile.core.explanation import Explanation
from voile.core.guarantee import Guarantee, Protected
from voile.core.row_note import KnownNote
from voile.privacy.events import PrivacyEvent
from voile.records.audit_log import (
    PostProcessingRecord,
    Receipt,
    Report,
    RowReceipt,
    RowTree,
    UnsignedRecord,
    decode_record,
    explanation_bytes,
    explanation_rows,
    guarantees_digest,
    issue_receipt,
)
from voile.records.audit_log.canonical import commitment_digest
from voile.records.ledger import Alert, Question, ReplayKey
from voile.records.ledger.event_text import event_text
from voile.records.ledger.history import entry_at
from voile.records.storage import Reader, Transaction
from voile.records.stored_answers import StoredAnswer, opened_by_nonces
from voile.records.vault import Vault
from voile.release import Preview, Release
from voile.release.charged import Artefact, paid_artefact

# --------------------------------------------------------------------------------------------------
# Explanations that cost nothing: one record for each call, and a proof for each row on demand.
#
# The record holds the guarantee that is carried forward, or says that there is none, commitments to
# question and answer, and the root of a tree over a commitment for each row. Nothing grows with the
# rows but the time to hash them; the ledger is not touched.
#
# All nonces are derived from the call's random name and the key outside the database. So proofs can
# be issued at any later time by whoever has that key and the explanation.


CARRIED: Final = "carried forward from training"
NO_PROMISE: Final = "none: made from public artefacts only"


@dataclass(frozen=True)
class FreeCall:
    """A call that is to be written into the log, its proofs, and what opens its commitments."""

    record: PostProcessingRecord
    tree: RowTree
    nonces: dict[str, bytes] = field(repr=False)


def free_call(vault: Vault, question: Question, subject: str, explanation: Explanation) -> FreeCall:
    """What the log will say about one call; the answer leaves after the commit."""
    call = secrets.token_hex(16)
    tree = RowTree.from_rows(explanation_rows(explanation), rows_seed(vault.key, call))
    record = call_record(
        vault,
        call,
        subject,
        len(explanation),
        explanation.guarantees,
        question.canonical_bytes,
        explanation_bytes(explanation),
        tree.root,
    )
    return FreeCall(record, tree, nonces_of_call(vault.key, call))


def call_record(
    vault: Vault,
    call: str,
    subject: str,
    rows: int,
    promises: tuple[Guarantee, ...],
    asked: bytes,
    answer: bytes,
    root: bytes,
) -> PostProcessingRecord:
    """The record of a call that costs nothing.

    Args:
        call: its random name.
        asked, answer: canonical bytes of both.
        root: of the tree over its rows.
    """
    nonces, first = nonces_of_call(vault.key, call), promises[0] if promises else None
    return PostProcessingRecord(
        time=int(vault.ledger.now()),
        call=call,
        subject=subject,
        rows=rows,
        promise=CARRIED if promises else NO_PROMISE,
        guarantees=_promises_digest(promises),
        query=commitment_digest("query", nonces["query"], asked),
        answer=commitment_digest("answer", nonces["answer"], answer),
        rows_root=root,
        epsilon=first.epsilon if first else None,
        delta=first.delta if first else None,
        **(first.protected.texts if first else {}),
    )


@lru_cache(maxsize=256)
def _promises_digest(guarantees: tuple[Guarantee, ...]) -> bytes:
    """A service promises the same few things again and again."""
    return guarantees_digest(guarantees)


def nonces_of_call(key: ReplayKey, call: str) -> dict[str, bytes]:
    """What opens the commitments of a call's record."""
    return key.nonces(f"call {call}")


def rows_seed(key: ReplayKey, call: str) -> bytes:
    """What the nonces of a call's rows are derived from."""
    return key.nonce(f"call {call}", "rows")


# --------------------------------------------------------------------------------------------------


_MOST_KNOWN: Final = 256
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ReleaseService:
    """Answers questions from what a party keeps.

    Args:
        vault: database with ledger and log, and the keys beside it.
        on_alert: called after the commit that reached a threshold, at most once for each. What it
            raises is written to Python's log: the answer has been paid for and must leave.
    """

    vault: Vault
    on_alert: Callable[[Alert], object] | None = None
    _facts: dict[int, ReleaseTerms] = field(init=False, repr=False, default_factory=dict)

    def preview(
        self,
        release: Release[Any],
        rows: Any = 1,
        *,
        payer: str | None = None,
        caller: str = "",
        fresh: bool = False,
    ) -> Preview:
        """What an answer for these rows, or this many, would cost and be like; nothing is charged.

        Args:
            payer: the account, if it is to be checked: that it protects what the release is about
                and, for rows that are handed in, whether it can pay for them.
            caller, fresh: see `answer`.
        """
        found = self._preview(release, rows, payer, caller, fresh=fresh)
        hints = () if isinstance(rows, int) else RowsToExplain.from_rows(rows).hints
        return replace(found, remarks=(*found.remarks, *hints)) if hints else found

    def _preview(
        self, release: Release[Any], rows: Any, payer: str | None, caller: str, *, fresh: bool
    ) -> Preview:
        facts, vault = self._facts_of(release), self.vault
        if payer is None or facts.is_free:
            return release.preview(
                rows if isinstance(rows, int) else RowsToExplain.from_rows(rows).count
            )
        facts.check_account(vault.account(payer))
        if isinstance(rows, int):
            return release.preview(rows)
        request = ExplanationRequest(
            rows=RowsToExplain.from_rows(rows), payer=payer, caller=caller, fresh=fresh
        )
        found = release.preview(request.rows.count)
        assert found.event is not None
        (questions,) = ask(vault, vault.account, facts, [request])
        if isinstance(questions, Exception):
            raise questions
        said = affordable(vault, questions, payer, found.event)
        return replace(found, remarks=(*found.remarks, *said))

    def answer(
        self,
        release: Release[Explanation],
        rows: Any,
        *,
        payer: str | None = None,
        caller: str,
        purpose: str = "explanation",
        subject: str = "",
        fresh: bool = False,
    ) -> ReleasedExplanation:
        """Explain rows, or refuse (`Refused`, `BudgetExceeded`).

        Args:
            release: what to release.
            rows: what the release takes, perhaps with identifiers and notes (`RowsToExplain`).
            payer: the account; None for a release that costs nothing. For protected records best a
                parallel account: then each record pays for itself.
            caller: who asks; a protected record's answer is given again to the same caller only.
            purpose: what for.
            subject: what is asked, for the record; the release's own words if empty.
            fresh: pay again for new noise, even if the question was answered before.
        """
        request = ExplanationRequest(
            rows=RowsToExplain.from_rows(rows),
            payer=payer,
            caller=caller,
            purpose=purpose,
            subject=subject,
            fresh=fresh,
        )
        (outcome,) = self.answer_many(release, [request])
        if isinstance(outcome, ReleasedExplanation):
            return outcome
        raise outcome

    def answer_many(
        self, release: Release[Explanation], requests: Sequence[ExplanationRequest]
    ) -> list[Outcome]:
        """Answer strangers together: one look, one draw where rows are drawn one by one, one
        transaction, and for each an outcome of its own.

        A refusal touches nobody else and leaves no account behind. A fault of the database is
        everybody's, and nothing of the transaction is kept.
        """
        facts = self._facts_of(release)
        if facts.is_free:
            return self._answer_freely(facts, requests)
        outcomes, alerts = answer_together(self.vault, facts, requests)
        self.tell(alerts)
        return outcomes

    def answer_request(
        self, request: Request, draw: Callable[[], NoisyAnswer], *, fresh: bool = False
    ) -> Answer:
        """The walk for one question whose answer is bytes; refused by `BudgetExceeded`."""
        vault = self.vault
        account = vault.account(request.question.account)
        questions = AccountQuestions.to_account(vault, account, [request], fresh=fresh)
        answer = answer_alone(vault, questions, draw)
        self.tell(answer.alerts)
        return answer

    def obtain(
        self,
        release: Release[Artefact],
        *,
        payer: str,
        caller: str,
        subject: str = "",
        fresh: bool = False,
    ) -> Artefact:
        """What is made once from protected records, and used for ever: paid for, on record.

        Asking again gives the same again, at no cost; who loses a race gets what the winner made.
        """
        facts = self._facts_of(release)
        request = facts.artefact(payer, caller=caller, purpose=release.title, subject=subject)
        answer = self.answer_request(
            request, lambda: to_keep(release, release.draw(None)), fresh=fresh
        )
        return paid_artefact(release, answer.charge, self)

    def paid_answer(self, charge: str, event: PrivacyEvent | None, protected: Protected) -> bytes:
        """What the ledger keeps under a charge, if it was for this event and about `protected`."""
        ledger = self.vault.ledger

        def find(t: Reader) -> bytes:
            kept = ledger.paid(t, charge).kept
            entry = entry_at(t, kept.root, kept.number)
            if entry is None or event is None or entry.event != event_text(event):
                raise Refused(f"charge {charge!r} paid for another event than this release costs")
            ledger.account(t, kept.account).check_protects(protected)
            return kept.answer

        try:
            return self.vault.storage.read_snapshot(find)
        except InvalidInput as error:
            raise Refused(f"{error}: no charge exists for it") from error

    # --- proofs ---------------------------------------------------------------------------------

    def receipt(self, charge: str) -> Receipt:
        """A proof for one charge, at any later time.

        A checkpoint is signed first if none covers its record yet; that needs the signing key.
        """
        vault = self.vault
        settled = vault.storage.read_snapshot(lambda t: vault.ledger.paid(t, charge))
        stored = StoredAnswer(vault.log.origin, settled.terms, settled.kept)
        proof = self._proof(settled.record, stored.nonces(vault.key))
        return opened_by_nonces(proof, {"answer": stored.content})

    def receipt_of_call(self, record: int) -> Receipt:
        """The same for a call that cost nothing, which is known by the number of its record."""
        call = self.free_record(record)
        key = self.vault.place.replay_key
        if not key.exists():
            raise InvalidInput(f"{key}: replay key not found; name it with --replay-key")
        return self._proof(record, nonces_of_call(self.vault.key, call.call))

    def free_record(self, record: int) -> PostProcessingRecord:
        """What the log says about a call that cost nothing."""
        log = self.vault.log
        call = decode_record(self.vault.storage.read_snapshot(lambda t: log.record(t, record)))
        if not isinstance(call, PostProcessingRecord):
            raise InvalidInput(f"record {record} is not that of a call that cost nothing")
        return call

    def receipt_for_rows(self, record: int) -> Receipt:
        """Of a call's record, without the nonces of the whole call: whoever holds one row must not
        test guesses of others."""
        return self._proof(record)

    def receipts(self, explained: ReleasedExplanation) -> tuple[Receipt, ...]:
        """A proof for each entry; signed first, if need be."""
        return tuple(
            opened_by_nonces(
                self._proof(entry.record, entry.nonces),
                {"query": entry.question, "answer": entry.answer},
            )
            for entry in explained.entries
        )

    def row_receipt(self, explained: ReleasedExplanation, row: int) -> RowReceipt:
        """A proof for one row of a call that cost nothing; it says nothing about other rows."""
        if explained.rows_tree is None:
            raise InvalidInput("rows that were charged have receipts of their own (`receipts`)")
        record = explained.entries[0].record
        return explained.rows_tree.receipt(row, self.receipt_for_rows(record))

    def _proof(self, record: int, nonces: Mapping[str, bytes] | None = None) -> Receipt:
        storage, log = self.vault.storage, self.vault.log
        try:
            return issue_receipt(storage, log, record, nonces)
        except UnsignedRecord as error:
            if not self.vault.can_sign:
                raise UnsignedRecord(f"{error}, where the signing key of this log is") from None
        self.vault.publish()
        return issue_receipt(storage, log, record, nonces)

    def verify(self) -> Report:
        """Recompute every account from the log, and compare; changes nothing."""
        vault = self.vault
        evidence = Evidence(vault.policy, vault.kept_copies, replay_key=vault.key_as_found)
        return verify(vault.storage, vault.ledger, vault.log, evidence)

    # --- explanations that cost nothing ---------------------------------------------------------

    def _answer_freely(
        self, facts: ReleaseTerms, requests: Sequence[ExplanationRequest]
    ) -> list[Outcome]:
        """The ledger is not touched; one record for each call, all in one transaction."""
        if self.vault.log.kept is not None:
            self.vault.storage.submit(self.vault.log.check)
        calls = [caught(self._free_call, facts, r) for r in requests]

        def append(t: Transaction) -> list[int]:
            numbers = []
            for request, each in zip(requests, calls, strict=True):
                if isinstance(each, Exception):
                    continue
                number = self.vault.log.append(t, each[2].record).number
                if request.settlement is not None:
                    request.settlement.keep(t, [(None, number, False)])
                numbers.append(number)
            return numbers

        numbers = iter(self.vault.storage.submit(append))
        return [
            each if isinstance(each, Exception) else _free(next(numbers), *each) for each in calls
        ]

    def _free_call(
        self, facts: ReleaseTerms, request: ExplanationRequest
    ) -> tuple[Explanation, Question, FreeCall]:
        rows = request.rows
        rows.check()
        explanation = facts.release.draw(rows.rows)
        explanation = settled_notes(explanation, *rows.notes, KnownNote.NOTHING_TO_CHARGE)
        asked = question(facts.identity, "", about_public(rows.rows, rows.notes))
        call = free_call(self.vault, asked, facts.subject(request.subject), explanation)
        return explanation, asked, call

    def _facts_of(self, release: Release[Any]) -> ReleaseTerms:
        """Releases are frozen: the same object has the same facts."""
        known = self._facts.get(id(release))
        if known is None or known.release is not release:
            if len(self._facts) >= _MOST_KNOWN:
                self._facts.clear()
            known = self._facts[id(release)] = ReleaseTerms(release)
        return known

    def tell(self, alerts: Sequence[Alert]) -> None:
        """Call back, after the commit."""
        for alert in alerts if self.on_alert else ():
            assert self.on_alert is not None
            try:
                self.on_alert(alert)
            except Exception:
                _log.exception("the callback for %s failed; the alert is recorded", alert)


def _free(
    number: int, explanation: Explanation, asked: Question, call: FreeCall
) -> ReleasedExplanation:
    entry = LoggedAnswer(explanation, asked.canonical_bytes, number, None, False, call.nonces)
    return ReleasedExplanation(explanation, (entry,), call.tree)
