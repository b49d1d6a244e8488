"""`Explainer`: an explanation with a guarantee, paid for, on record, and with a receipt.

The walk of one explanation:

1. Check, from public facts alone: is the log the one we know, does the account protect what the
   release speaks about, was this asked before, would it fit? A refusal is recorded, and nothing is
   computed.
2. Compute: values and noise, in memory.
3. One transaction: check again, charge the account and all above it, keep the noisy answer under
   its keyed digest, append the record.
4. Only now does the explanation leave. `Explainer.receipts` hands out the proof.

Which of three ways a release goes:

- it costs nothing: one record for the call, the ledger is not touched (`free`);
- its rows are protected records: each row is charged by itself (`per_record`);
- anything else is one question with one charge (`charging.Desk`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final, TypeAlias

import numpy as np

from voile.audit_log import Receipt, RowReceipt, RowTree, explanation_bytes, issue_receipt
from voile.core.errors import InvalidInput, Refused
from voile.core.explanation import Explanation
from voile.core.row_note import Note
from voile.ledger import Account, Question
from voile.ledger.replay import About
from voile.privacy.events import PrivacyEvent
from voile.release import NOT_CHARGED, Identity, Preview, Release, RowsAre
from voile.workflows.charging import Answer, Desk, Drawn, Request
from voile.workflows.explain.free import record_call
from voile.workflows.explain.per_record import (
    Named,
    account_of_record,
    answer_rows,
    check_account_of_records,
    named_records,
    watched_records,
)
from voile.workflows.explain.questions import (
    PARTS_OF_ROWS,
    about_population,
    about_public,
    chosen,
    public_size,
    question,
    row_count,
)

Identifier: TypeAlias = str | int | float | None
"""As files and tables hold them; `voile.core.identifiers` says what they mean."""
NOTHING_TO_CHARGE: Final = "post-processing: nothing to charge"
_SHOWN: Final = 12


@dataclass(frozen=True)
class OnRecord:
    """One record of the audit log, and what it is about.

    Args:
        explanation: what was answered, exactly as the record commits to it.
        question: canonical bytes of what was asked, as the record commits to it.
        record: number of the record in the log.
        charge: the ledger's name for the charge; None if it cost nothing.
        replayed: it was answered before, and not charged again.
        nonces: open the record's commitments; for the person who asked.
    """

    explanation: Explanation
    question: bytes = field(repr=False)
    record: int
    charge: str | None
    replayed: bool
    nonces: dict[str, bytes] = field(repr=False)

    @property
    def answer(self) -> bytes:
        """Canonical bytes of what was answered, for `voile.audit_log.verify_receipt`."""
        return explanation_bytes(self.explanation)


@dataclass(frozen=True)
class Explained:
    """What leaves: an explanation that was paid for and is on record.

    Args:
        explanation: all rows together.
        entries: one for each record of the log: one for the call, or one for each protected row.
        rows_tree: proves single rows of a call that cost nothing.
    """

    explanation: Explanation
    entries: tuple[OnRecord, ...]
    rows_tree: RowTree | None = field(default=None, repr=False)

    @property
    def replayed(self) -> bool:
        """Nothing new was charged."""
        return all(entry.replayed for entry in self.entries)

    @property
    def charges(self) -> tuple[str, ...]:
        """The charges behind it, without repetition; empty if it cost nothing."""
        return tuple(dict.fromkeys(entry.charge for entry in self.entries if entry.charge))

    @property
    def records(self) -> tuple[int, ...]:
        """Numbers of its records in the log, without repetition."""
        return tuple(dict.fromkeys(entry.record for entry in self.entries))


@dataclass(frozen=True, eq=False)
class Explainer:
    """A release, the account that pays for it, and the desk where that happens.

    Args:
        release: what to release.
        desk: ledger, log and key.
        account: who pays; None for a release that costs nothing. For protected records best a
            parallel account: then each record pays for itself.
        caller: who asks; a protected record's answer is given again to the same caller only.
        purpose: what for.
        subject: what is asked, for the record; the release's own words if empty.
        notes: what else is to be said with every explanation, such as `ExplanationInputs.notes`.
    """

    release: Release
    desk: Desk
    account: str | None = None
    caller: str = "explainer"
    purpose: str = "explanation"
    subject: str = ""
    notes: tuple[Note, ...] = ()
    _paying: Account | None = field(init=False, repr=False, default=None)

    def __post_init__(self) -> None:
        if self.release.cost(1) is None:
            return
        if self.account is None:
            raise Refused(
                "this release costs privacy budget: say which account pays "
                "(`voile budget open` opens one)"
            )
        name = self.account
        paying = self.desk.storage.submit(lambda t: self.desk.ledger.account(t, name))
        paying.check_protects(self.release.guarantees(1)[0].protected)
        if self.release.rows_are is RowsAre.RECORD:
            check_account_of_records(paying)
        object.__setattr__(self, "_paying", paying)

    def preview(self, rows: int = 1) -> Preview:
        """What a call with this many rows would cost and be like; nothing is charged."""
        return self.release.preview(rows)

    def __call__(
        self,
        rows: Any,
        *,
        identifiers: Sequence[Identifier] | None = None,
        population: str | None = None,
        fresh: bool = False,
    ) -> Explained:
        """Explain rows, or refuse (`Refused`, `BudgetExceeded`).

        Args:
            rows: what the release takes.
            identifiers: names of the rows: integers or text (`voile.core.identifiers`). Of
                protected records: each pays for itself, and asking again is free; a row without a
                name may be anybody's, so everybody pays for it. Of a population: for the watch
                against reconstruction.
            population: its name; by default the label of the data set.
            fresh: pay again for new noise, even if the question was answered before.
        """
        count = row_count(rows)
        if count == 0:
            raise InvalidInput("expected at least one row, found none")
        if self._paying is None:
            return self._free(rows)
        if self.release.rows_are is RowsAre.RECORD:
            named = named_records(identifiers, count, self._paying.protected.dataset)
            return self._records(rows, named, self._paying, fresh)
        about: About
        if self.release.rows_are is RowsAre.POPULATION:
            size = public_size(rows, self._paying.protected.relation)
            about = about_population(population or self._paying.protected.dataset, size)
        else:
            about = about_public(rows, self.notes)
        return self._one_question(rows, count, about, identifiers, self._paying, fresh)

    # --- proofs ---------------------------------------------------------------------------------

    def receipts(self, explained: Explained) -> tuple[Receipt, ...]:
        """A proof for each entry, under the latest published checkpoint.

        Sign one first (`voile.workflows.books.Books.publish`, `voile audit checkpoint`).
        """
        desk = self.desk
        return tuple(
            issue_receipt(desk.storage, desk.log, entry.record, entry.nonces)
            for entry in explained.entries
        )

    def row_receipt(self, explained: Explained, row: int) -> RowReceipt:
        """A proof for one row of a call that cost nothing; it says nothing about other rows."""
        if explained.rows_tree is None:
            raise InvalidInput("rows that were charged have receipts of their own (`receipts`)")
        # Without the nonces of the whole call: who holds one row must not test guesses of others.
        record = issue_receipt(self.desk.storage, self.desk.log, explained.entries[0].record)
        return explained.rows_tree.receipt(row, record)

    # --- the three ways -------------------------------------------------------------------------

    def _free(self, rows: Any) -> Explained:
        self.desk.check_log()
        explanation = _settled_notes(self.release.draw(rows), *self.notes, NOTHING_TO_CHARGE)
        asked = question(self._identity, "", about_public(rows, self.notes))
        answer, tree = record_call(self.desk, asked, self._subject, explanation)
        return Explained(explanation, (_entry(explanation, asked, answer),), tree)

    def _one_question(
        self,
        rows: Any,
        count: int,
        about: About,
        identifiers: Sequence[Identifier] | None,
        paying: Account,
        fresh: bool,
    ) -> Explained:
        names = () if identifiers is None else identifiers
        watched = watched_records(self.desk.key, names, paying.protected.dataset)
        request = replace(self._request(count, paying.name, about), population=watched)
        made: list[Explanation] = []

        def draw() -> Drawn:
            made.append(_settled_notes(self.release.draw(rows), *self.notes))
            return _drawn(made[0])

        answer = self.desk.answer(request, draw, fresh=fresh)
        explanation = made[0] if made and not answer.replayed else _stored(answer)
        return Explained(explanation, (_entry(explanation, request.question, answer),))

    def _records(
        self, rows: Any, named: Sequence[Named], paying: Account, fresh: bool
    ) -> Explained:
        requests = [self._record_request(paying, record) for record in named]
        made: dict[int, Explanation] = {}

        def draw(places: Sequence[int]) -> list[Drawn]:
            explanation = _settled_notes(self.release.draw(chosen(rows, places)), *self.notes)
            parts = [explanation] if len(places) == 1 else explanation
            made.update(zip(places, parts, strict=True))
            return [_drawn(made[place]) for place in places]

        answers = answer_rows(self.desk, paying, requests, draw, fresh=fresh)
        entries = tuple(
            _entry(_stored(answer) if answer.replayed else made[row], request.question, answer)
            for row, (request, answer) in enumerate(zip(requests, answers, strict=True))
        )
        return Explained(_joined([entry.explanation for entry in entries]), entries)

    # --- requests -------------------------------------------------------------------------------

    @cached_property
    def _identity(self) -> Identity:
        return self.release.identity

    @cached_property
    def _subject(self) -> str:
        identity = self._identity
        return self.subject or f"{identity.explainer}, model {identity.model[:_SHOWN]}"

    @cached_property
    def _of_one_row(self) -> Request:
        """What is the same for every protected record."""
        assert self._paying is not None
        return self._request(1, self._paying.name, None)

    def _record_request(self, paying: Account, record: Named) -> Request:
        name = account_of_record(self.desk.key, paying, record)
        return replace(self._of_one_row, question=question(self._identity, name, record))

    def _request(self, rows: int, account: str, about: About) -> Request:
        event: PrivacyEvent | None = self.release.cost(rows)
        assert event is not None
        return Request(
            question=question(self._identity, account, about),
            event=event,
            guarantees=self.release.guarantees(rows),
            subject=self._subject,
            purpose=self.purpose,
            caller=self.caller,
            part=PARTS_OF_ROWS[self.release.rows_are],
        )


def _settled_notes(explanation: Explanation, *more: Note) -> Explanation:
    """The note "not charged" goes, because what carries it leaves only after the commit."""
    notes = tuple(note for note in explanation.notes if note != NOT_CHARGED)
    return replace(explanation, notes=(*notes, *more))


def _drawn(explanation: Explanation) -> Drawn:
    return Drawn(explanation.to_bytes(), explanation_bytes(explanation))


def _stored(answer: Answer) -> Explanation:
    return Explanation.from_bytes(answer.content)


def _entry(explanation: Explanation, asked: Question, answer: Answer) -> OnRecord:
    return OnRecord(
        explanation,
        asked.canonical_bytes,
        answer.record,
        answer.charge or None,
        answer.replayed,
        answer.nonces,
    )


def _joined(parts: Sequence[Explanation]) -> Explanation:
    """Rows one below the other; they answer one question, so labels and promises are the same."""
    first = parts[0]
    if len(parts) == 1:
        return first

    def together(name: str) -> Any:
        arrays = [getattr(part, name) for part in parts]
        return None if arrays[0] is None else np.concatenate(arrays)

    names = ("values", "base_values", "data", "standard_errors", "half_widths")
    return replace(first, **{name: together(name) for name in names})
