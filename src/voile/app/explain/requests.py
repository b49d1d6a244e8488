"""Who asks for which rows, and the questions that this makes of a release."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final

from voile.app.custody import Custody
from voile.app.explain.charging import AccountQuestions, Request, prepare
from voile.app.explain.per_record import (
    Named,
    account_of_record,
    check_account_of_records,
    named_records,
    watched_records,
)
from voile.app.explain.questions import (
    RowsToExplain,
    about_population,
    about_public,
    public_size,
    question,
    question_of_artefact,
)
from voile.app.explain.walk import Asking
from voile.core.errors import Refused
from voile.core.guarantee import Guarantee
from voile.core.storage import Reader
from voile.ledger import Account, Question
from voile.privacy.events import PrivacyEvent
from voile.release import Release, ReleaseIdentity, RowsAre

_MOST_KNOWN: Final = 64
_SHOWN: Final = 12


@dataclass(frozen=True, kw_only=True)
class ExplanationRequest:
    """What one caller asks; see `ReleaseService.answer`."""

    rows: RowsToExplain
    caller: str
    payer: str | None = None
    purpose: str = "explanation"
    subject: str = ""
    fresh: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "rows", RowsToExplain.of(self.rows))


@dataclass(frozen=True, eq=False)
class PublicFacts:
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

    def subject(self, request: ExplanationRequest) -> str:
        return request.subject or f"{self.release.title}, model {self.identity.model[:_SHOWN]}"

    def paying(self, custody: Custody, t: Reader, payer: str) -> Account:
        """The account, if it protects what the release speaks about; else `Refused`."""
        account, speaks = custody.ledger.account(t, payer), self.cost(1)[1][0]
        account.check_protects(speaks.protected)
        if self.release.rows_are is RowsAre.RECORD:
            check_account_of_records(account)
        return account

    def artefact(self, request: ExplanationRequest) -> Request:
        """The question for what the release makes once: asked again, it is answered again."""
        dataset = self.cost(1)[1][0].protected.dataset
        assert request.payer is not None
        asked = question_of_artefact(self.identity, request.payer, dataset)
        return self._request(request, 1, asked)

    def asking(self, custody: Custody, request: ExplanationRequest) -> Asking:
        """The questions of a request, as far as they can be made without the account."""
        rows, kind = request.rows, self.release.rows_are
        rows.check()
        if request.payer is None:
            raise Refused(
                "this release costs privacy budget: say which account pays "
                "(`voile budget open` opens one)"
            )
        if kind is RowsAre.RECORD:
            common = self._request(request, 1, question(self.identity, request.payer, None))
            return lambda t: self._records(custody, t, request, common)
        about = about_public(rows.rows, rows.notes) if kind is RowsAre.PUBLIC else None
        asked = question(self.identity, request.payer, about)
        common = self._request(request, rows.count, asked)
        return lambda t: self._one_question(custody, t, request, common)

    def _records(
        self, custody: Custody, t: Reader, request: ExplanationRequest, common: Request
    ) -> AccountQuestions:
        """One question for each row, to the account of its record."""
        account, rows = self.paying(custody, t, common.question.account), request.rows
        named = named_records(rows.identifiers, rows.count, account.protected.dataset)
        # One record in two spellings is one question: the spelling that an earlier version may
        # have stored counts for both.
        spelled = {each: each for each in named if each is not None and each.earlier is not None}
        prepared = []
        for each in named:
            record = each if each is None else spelled.get(each, each)
            asked = replace(common, question=self._about_record(custody, account, record))
            prepared.append(prepare(custody, asked, account))
        return AccountQuestions(account, tuple(prepared), request.fresh)

    def _about_record(self, custody: Custody, account: Account, record: Named) -> Question:
        """To the account of the record, and as it was asked under an earlier name of it."""
        name = account_of_record(custody.key, account, record)
        asked = question(self.identity, name, record)
        if record is None or record.earlier is None:
            return asked
        before = self._about_record(custody, account, record.earlier)
        spellings = (*asked.earlier, replace(before, earlier=()), *before.earlier)
        return replace(asked, earlier=spellings)

    def _one_question(
        self, custody: Custody, t: Reader, request: ExplanationRequest, common: Request
    ) -> AccountQuestions:
        """One question for all rows."""
        account, rows = self.paying(custody, t, common.question.account), request.rows
        if self.release.rows_are is RowsAre.POPULATION:
            size = public_size(rows.rows, account.protected.relation)
            about = about_population(rows.population or account.protected.dataset, size)
            common = replace(common, question=question(self.identity, account.name, about))
        watched = watched_records(custody.key, rows.identifiers or (), account.protected.dataset)
        asked = replace(common, population=watched)
        return AccountQuestions(account, (prepare(custody, asked, account),), request.fresh)

    def _request(self, request: ExplanationRequest, rows: int, asked: Question) -> Request:
        event, guarantees = self.cost(rows)
        assert event is not None
        return Request(
            question=asked,
            event=event,
            guarantees=guarantees,
            subject=self.subject(request),
            purpose=request.purpose,
            caller=request.caller,
            part=self.release.part,
        )
