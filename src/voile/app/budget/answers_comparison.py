"""Stored answers against charges: step 9 of `budget.verification`.

A stored answer is given to whoever asks again, at no cost. So each must belong to a charge: one
answer for every charge whose record promises one (also for each of those that somebody paid for
again), of the same account and question, at the record that the log holds, and with the content
that this record commits to.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import Final

from voile.core.errors import InvalidInput
from voile.records.audit_log import ReleaseRecord
from voile.records.ledger import ReplayKey
from voile.records.ledger.journal import Act, AnswerRow, Entry, all_answers, answer_of, entry_at
from voile.records.storage import Reader
from voile.records.stored_answers import StoredAnswer

FOREIGN_KEY: Final = (
    "none of {count} stored answers opens with this replay key: it is the key of another ledger "
    "(name the right one with --replay-key), or all of them were exchanged"
)


class AnswersCheck:
    """Takes the charges of releases with their records; then looks for answers that nobody paid.

    Args:
        origin: of the log.
        terms: of each account, the random name.
        key: opens the commitments; without it contents are compared with their digests only.
    """

    def __init__(
        self, t: Reader, origin: str, terms: Mapping[str, bytes], key: ReplayKey | None
    ) -> None:
        self._t, self._origin, self._terms, self._key = t, origin, terms, key
        self.charged = self._found = self._opened = 0
        self.problems: list[str] = []

    def take(self, number: int, record: ReleaseRecord, entry: Entry) -> None:
        """A charge, and the record of it at this place in the log."""
        self.charged += 1
        try:
            problem = self._problem(number, record, entry)
        except InvalidInput as error:  # somebody wrote into the database
            problem = f"its answer cannot be read: {error}"
        if problem:
            self.problems.append(f"{record.charge}: {problem}")

    def _problem(self, number: int, record: ReleaseRecord, entry: Entry) -> str:
        kept = answer_of(self._t, entry)
        if kept is None:
            return "charged, but its answer is not kept"
        if not _is_of(kept, entry) or kept.record != number:
            return "the answer kept for it is of another charge"
        self._found += 1
        if not self._is_on_record(kept, record):
            return "the answer kept is not that on record"
        self._opened += 1
        return ""

    def finish(self) -> None:
        """No answer is kept beside those of the charges."""
        if self._key is not None and self._found and not self._opened:
            self.problems.insert(0, FOREIGN_KEY.format(count=self._found))
        beside = 0
        try:
            beside = sum(1 for _ in all_answers(self._t)) - self._found
            strays = [_never_charged(each) for each in self._strays()] if beside else []
        except InvalidInput as error:
            strays = [f"the stored answers cannot be read: {error}"]
        self.problems += strays
        if beside and not self.problems:
            self.problems.append(f"{beside} answers are kept for charges that are no releases")

    def _strays(self) -> Iterator[AnswerRow]:
        """A question and a number name at most one answer and, with the tree, one charge."""
        for kept in all_answers(self._t):
            entry = entry_at(self._t, kept.root, kept.number)
            if entry is None or not _is_of(kept, entry):
                yield kept

    def _is_on_record(self, kept: AnswerRow, record: ReleaseRecord) -> bool:
        if hashlib.sha256(kept.answer).digest() != kept.digest:
            return False
        if self._key is None:
            return True
        answer = StoredAnswer(self._origin, self._terms.get(kept.account, b""), kept)
        return answer.opens(record.answer, self._key)


def _is_of(kept: AnswerRow, entry: Entry) -> bool:
    charged = entry.root, entry.act, entry.account, entry.query, entry.time
    return charged == (kept.root, Act.CHARGED.value, kept.account, kept.query, kept.time)


def _never_charged(kept: AnswerRow) -> str:
    return f"{kept.root}#{kept.number}: an answer is kept that was never charged"
