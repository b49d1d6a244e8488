"""What is asked: who asks for which rows, and the question that the ledger recognises.

A question about public rows is recognised by their values. A question about a population is
recognised by its name and, where that is public, its size, one about a protected record by the
record's identifier: never by values, because whether something was charged is visible.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final

from voile.app.explain.charging import AccountQuestions, Request, Settlement
from voile.app.explain.per_record import (
    Named,
    account_of_record,
    check_account_of_records,
    named_records,
    watched_records,
)
from voile.app.explain.rows import RowsToExplain, Size, public_size, rows_digest
from voile.core.guarantee import Guarantee, RowPart
from voile.core.row_note import Note, note_to_plain
from voile.privacy.events import PrivacyEvent
from voile.records.ledger import (
    About,
    Account,
    PublicInput,
    Question,
    WholeDataset,
    check_words,
)
from voile.records.vault import Vault
from voile.release import Release, ReleaseIdentity

_MOST_KNOWN: Final = 64
_SHOWN: Final = 12


@dataclass(frozen=True, kw_only=True)
class ExplanationRequest:
    """What one caller asks; see `ReleaseService.answer`.

    Args:
        settlement: what a door keeps of it, in the same transaction.
        quality: half-width of a released value over the width of the output, if that is known.
        coarser: a coarser level will do, if a rule offers one.
        offered: this is what was offered.
    """

    rows: RowsToExplain
    caller: str
    payer: str | None = None
    purpose: str = "explanation"
    subject: str = ""
    fresh: bool = False
    settlement: Settlement | None = None
    quality: float | None = None
    coarser: bool = False
    offered: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "rows", RowsToExplain.from_rows(self.rows))


@dataclass(frozen=True, eq=False)
class ReleaseTerms:
    """What is public about a release, found out once."""

    release: Release[Any]
    _costs: dict[int, tuple[PrivacyEvent | None, tuple[Guarantee, ...]]] = field(
        init=False, repr=False, default_factory=dict
    )

    @cached_property
    def identity(self) -> ReleaseIdentity:
        return self.release.identity

    @cached_property
    def is_free(self) -> bool:
        return self.cost(1)[0] is None

    def cost(self, rows: int) -> tuple[PrivacyEvent | None, tuple[Guarantee, ...]]:
        """What explaining this many rows costs and promises."""
        if rows not in self._costs:
            if len(self._costs) >= _MOST_KNOWN:
                self._costs.clear()
            self._costs[rows] = self.release.cost(rows), self.release.guarantees(rows)
        return self._costs[rows]

    def subject(self, stated: str = "") -> str:
        """What is asked, for the record; what one caller states wrongly is its own fault alone."""
        if not stated:
            return self._subject
        check_words("subject", stated)
        return stated

    @cached_property
    def _subject(self) -> str:
        return f"{self.release.title}, model {self.identity.model[:_SHOWN]}"

    def check_account(self, account: Account) -> None:
        """Refuse an account that does not protect what the release speaks about."""
        account.check_protects(self.cost(1)[1][0].protected)
        if self.release.part is RowPart.EXPLAINED:
            check_account_of_records(account)

    def artefact(self, payer: str, *, caller: str, purpose: str, subject: str = "") -> Request:
        """The question for what the release makes once: asked again, it is answered again."""
        dataset = self.cost(1)[1][0].protected.dataset
        asked = question_of_artefact(self.identity, payer, dataset)
        return self._request(asked, 1, caller, purpose, subject)

    def questions(
        self, vault: Vault, account: Account, request: ExplanationRequest
    ) -> AccountQuestions:
        """What a request asks an account for: of protected records one question for each row."""
        self.check_account(account)
        of_records = self.release.part is RowPart.EXPLAINED
        found = (self._records if of_records else self._one_question)(vault, account, request)
        if (request.settlement, request.quality, request.offered) == (None, None, False):
            return found
        return replace(
            found,
            settlement=request.settlement,
            quality=request.quality,
            coarser=request.offered,
        )

    def _records(
        self, vault: Vault, account: Account, request: ExplanationRequest
    ) -> AccountQuestions:
        """One question for each row, to the account of its record."""
        rows = request.rows
        named = named_records(rows.identifiers, rows.count, account.protected.dataset)
        # One record in two spellings is one question: the spelling that an earlier version may
        # have stored counts for both.
        spelled = {each: each for each in named if each is not None and each.earlier is not None}
        records = [each if each is None else spelled.get(each, each) for each in named]
        asked = [
            self._asked(request, 1, self._about_record(vault, account, each)) for each in records
        ]
        return AccountQuestions.to_account(vault, account, asked, fresh=request.fresh)

    def _about_record(self, vault: Vault, account: Account, record: Named) -> Question:
        """To the account of the record, and as it was asked under an earlier name of it."""
        name = account_of_record(vault.key, account, record)
        asked = question(self.identity, name, record)
        if record is None or record.earlier is None:
            return asked
        before = self._about_record(vault, account, record.earlier)
        spellings = (*asked.earlier, replace(before, earlier=()), *before.earlier)
        return replace(asked, earlier=spellings)

    def _one_question(
        self, vault: Vault, account: Account, request: ExplanationRequest
    ) -> AccountQuestions:
        """One question for all rows."""
        rows, protected = request.rows, account.protected
        about: About
        if self.release.part is RowPart.POPULATION:
            size = public_size(rows.rows, protected.relation)
            about = about_population(rows.population or protected.dataset, size)
        else:
            about = about_public(rows.rows, rows.notes)
        asked = self._asked(request, rows.count, question(self.identity, account.name, about))
        if rows.identifiers:
            watched = watched_records(vault.key, rows.identifiers, protected.dataset)
            asked = replace(asked, population=watched)
        return AccountQuestions.to_account(vault, account, [asked], fresh=request.fresh)

    def _asked(self, request: ExplanationRequest, rows: int, asked: Question) -> Request:
        return self._request(asked, rows, request.caller, request.purpose, request.subject)

    def _request(
        self, asked: Question, rows: int, caller: str, purpose: str, subject: str
    ) -> Request:
        event, guarantees = self.cost(rows)
        assert event is not None
        return Request(
            question=asked,
            event=event,
            guarantees=guarantees,
            subject=self.subject(subject),
            purpose=purpose,
            caller=caller,
            part=self.release.part,
        )


def question(identity: ReleaseIdentity, account: str, about: About) -> Question:
    """Everything the answer depends on."""
    earlier = tuple([question(each, account, about) for each in identity.earlier])
    return _question(identity, account, about, earlier)


def question_of_artefact(identity: ReleaseIdentity, account: str, dataset: str) -> Question:
    """The question for what is made once from a data set."""
    earlier = [question_of_artefact(each, account, dataset) for each in identity.earlier]
    about = about_artefact(identity.explainer, dataset)
    return _question(identity, account, about, tuple(earlier))


def _question(
    identity: ReleaseIdentity, account: str, about: About, earlier: tuple[Question, ...]
) -> Question:
    return Question(
        account=account,
        model=identity.model,
        explainer=identity.explainer,
        level=identity.level,
        parameters=identity.parameters,
        about=about,
        earlier=earlier,
    )


def about_public(rows: Any, notes: Sequence[Note] = ()) -> PublicInput:
    """Rows that are not protected: their values name them.

    And what is noted about them: a stored answer carries its notes, so rows of which a cell was
    filled in are not asked about by rows that hold the default.
    """
    said = json.dumps([note_to_plain(note) for note in notes]).encode() if notes else b""
    return PublicInput(rows_digest(rows) + said)


def about_artefact(name: str, dataset: str) -> WholeDataset:
    """What is made once from a data set: its name."""
    return WholeDataset(f"{name} of {dataset}".encode())


def about_population(name: str, size: Size) -> WholeDataset:
    """A population: its name, and its size if that is public."""
    return WholeDataset(json.dumps(["population", name, size]).encode())
