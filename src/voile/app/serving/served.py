"""A workspace as it is served: all releases loaded once, and requests of strangers to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from voile.app.explain import ExplanationRequest, RowsToExplain
from voile.app.explain.charging import Settlement
from voile.app.explain.released import LoggedAnswer, ReleasedExplanation, joined
from voile.app.explain.service import ReleaseService
from voile.app.explain.walk import Outcome, caught
from voile.app.serving.callers import Caller, NotAuthenticated, NotGranted
from voile.app.serving.levels import answer_or_offer
from voile.app.serving.once import AnsweredMeanwhile, Once, Receiving
from voile.app.serving.recommending import ServedRecommender
from voile.app.serving.release import ServedRelease, UnusableRows, preview_facts
from voile.app.workspace.file import WorkspaceFile
from voile.app.workspace.serve_table import ServeTable
from voile.core.errors import InvalidInput, Refused
from voile.core.guarantee import RowPart
from voile.core.identifiers import canonical_identifier
from voile.records.access import (
    Duty,
    add_recipient,
    find_account,
    is_recipient,
    public_name,
    register_accounts,
)
from voile.records.audit_log import ReleaseRecord, Witness, decode_record
from voile.records.ledger.history import entry_at
from voile.records.storage import Reader, Transaction
from voile.records.vault import Vault
from voile.release import Preview

_HOUR: Final = 3600.0


class UnknownName(InvalidInput):
    """There is nothing of this name for whoever asks."""


class PaymentNeeded(Refused):
    """The release costs privacy budget, and no account was named.

    Args:
        preview: the price.
    """

    def __init__(self, preview: Preview) -> None:
        self.preview = preview
        super().__init__("this release costs privacy budget: name the account that pays")


class KeyNeeded(InvalidInput):
    """A request that would be charged again if it were repeated needs a key against that."""


@dataclass(frozen=True)
class AskedExplanation:
    """What a request asks for.

    Args:
        rows: columns by name, a list of rows by name, a list of rows in the order of the schema,
            or an array in the schema's numbers.
        account: who pays: its name, or its public name.
        purpose, redraw, coarser: as of `voile explain`.
        repeat: key against repetition.
        endpoint: where it was sent; keys of two endpoints are two keys.
    """

    rows: Any = field(repr=False)
    account: str | None = None
    purpose: str = "explanation"
    redraw: bool = False
    coarser: bool = False
    repeat: str | None = None
    endpoint: str = ""


@dataclass(frozen=True)
class PreparedRequest:
    """A request that was checked, and what recognises its repetition."""

    request: ExplanationRequest
    once: Once | None = None


@dataclass(frozen=True, eq=False)
class ServedWorkspace:
    """A workspace, opened for strangers.

    Args:
        witness: for the logs of others, if [serve.witness] says so.
    """

    file: WorkspaceFile
    service: ReleaseService
    releases: Mapping[str, ServedRelease]
    recommenders: Mapping[str, ServedRecommender] = field(default_factory=dict)
    witness: Witness | None = None

    @property
    def settings(self) -> ServeTable:
        """What [serve] says."""
        return self.file.tables.serve

    @property
    def vault(self) -> Vault:
        """What is kept."""
        return self.service.vault

    def release(self, name: str, caller: Caller) -> ServedRelease:
        """A release that this caller may ask; anonymous callers see anonymous ones only."""
        found = self.releases.get(name)
        if caller.is_anonymous and (found is None or not found.anonymous):
            raise NotAuthenticated("this needs an API key or a token")
        caller.check_duty(Duty.EXPLAIN)
        if found is None:
            raise UnknownName("there is no release of this name")
        caller.check_level(found.job.spec.level)
        return found

    def recommender(self, name: str, caller: Caller) -> ServedRecommender:
        """A recommender that this caller may ask."""
        caller.check_duty(Duty.EXPLAIN)
        found = self.recommenders.get(name)
        if found is None:
            raise UnknownName("there is no recommender of this name")
        return found

    def account(self, named: str) -> str:
        """The account of a name or a public name."""
        found = self.vault.storage.read_snapshot(lambda t: self._account(t, named))
        if found is None:
            raise UnknownName("there is no account of this name")
        return found

    def _account(self, t: Reader, named: str) -> str | None:
        public = find_account(t, named)
        if public is not None:
            return public
        with suppress(InvalidInput):
            return named if self.vault.ledger.is_open(t, named) else None
        return None

    def public_name(self, account: str) -> str:
        """What an account is called in addresses."""
        return public_name(self.vault.key, account)

    def name_accounts(self, *accounts: str) -> None:
        """Make accounts known by their public names."""
        self.vault.storage.submit(lambda t: register_accounts(t, self.vault.key, accounts))

    # --- asking ---------------------------------------------------------------------------------

    def prepare(
        self, served: ServedRelease, asked: AskedExplanation, caller: Caller, *, part: int = 0
    ) -> PreparedRequest:
        """The request, once everything about it was checked but whether the budget covers it.

        Args:
            part: its number among several that were sent together, with one key.
        """
        rows = served.read(asked.rows)
        self._check_size(rows.count)
        if served.is_free:
            return self._prepared(rows, None, asked, caller, Receiving(caller.grants.caller), None)
        payer = self._payer(served, asked, caller, rows)
        once = self._once(served, asked, caller, payer, rows)
        once = once if once is None else once.part(part)
        return self._prepared(rows, payer, asked, caller, once, once)

    def _check_size(self, rows: int) -> None:
        if rows > self.settings.most_rows:
            most = self.settings.most_rows
            raise UnusableRows([{"problem": f"at most {most} rows are explained at once"}])

    def _prepared(
        self,
        rows: RowsToExplain,
        payer: str | None,
        asked: AskedExplanation,
        caller: Caller,
        settlement: Settlement | None,
        once: Once | None,
    ) -> PreparedRequest:
        request = ExplanationRequest(
            rows=rows,
            payer=payer,
            caller=caller.grants.caller,
            purpose=asked.purpose,
            fresh=asked.redraw,
            coarser=asked.coarser,
            settlement=settlement,
        )
        return PreparedRequest(request, once)

    def _payer(
        self, served: ServedRelease, asked: AskedExplanation, caller: Caller, rows: RowsToExplain
    ) -> str:
        """The account that is named: the release's own, or one of a tenant below it."""
        if asked.account is None:
            raise PaymentNeeded(served.release(rows.count).preview(rows.count))
        account, own = self._granted(asked.account, caller), served.job.spec.account
        path = self.vault.storage.read_snapshot(lambda t: self.vault.ledger.path(t, account))
        above = {node.account.name: node.account for node in path}
        # Whoever names the account of one record would have another person pay from it.
        if own not in above or above[own].is_parallel != path[0].account.is_parallel:
            raise NotGranted("this account does not pay for this release")
        return account

    def _granted(self, named: str, caller: Caller) -> str:
        """The account, if the caller may use it; nobody else learns whether it is there."""
        found = self.vault.storage.read_snapshot(lambda t: self._account(t, named))
        if found is None or not caller.grants.covers(found):
            raise NotGranted("there is no such account, or this key does not cover it")
        return found

    def _once(
        self,
        served: ServedRelease,
        asked: AskedExplanation,
        caller: Caller,
        payer: str,
        rows: RowsToExplain,
    ) -> Once | None:
        """What recognises a repetition; needed where a repetition would be charged again."""
        if asked.repeat is None:
            if asked.redraw or (not served.shows_rows and self._has_unnamed(served, rows)):
                raise KeyNeeded(
                    "sent twice, this would be charged twice: send an Idempotency-Key with it"
                )
            return None
        scope = (caller.grants.caller, payer, asked.endpoint, asked.repeat)
        told = [served.name, asked.purpose, asked.redraw, _plain(asked.rows)]
        seconds = _HOUR * self.settings.repeat_hours
        return Once.of_request(self.vault.key, scope, told, seconds)

    def _has_unnamed(self, served: ServedRelease, rows: RowsToExplain) -> bool:
        """Whether a row might be anybody's; a population has one name for all rows."""
        if served.job.spec.protect is not RowPart.EXPLAINED:
            return False
        names = rows.identifiers
        try:
            return names is None or None in map(canonical_identifier, names)
        except InvalidInput:
            column = served.job.spec.id_column
            problem = "an identifier is a whole number or a short text"
            raise UnusableRows([{"column": column, "problem": problem}]) from None

    def preview(
        self, served: ServedRelease, rows: Any, account: str | None, caller: Caller
    ) -> dict[str, Any]:
        """The price of an answer for these rows, or this many; nothing is charged."""
        found: Any = rows if isinstance(rows, int) else served.read(rows)
        count = rows if isinstance(rows, int) else found.count
        self._check_size(count)
        free = account is None or served.is_free
        payer = None if account is None or free else self._granted(account, caller)
        release = served.release(count)
        who = caller.grants.caller
        preview = self.service.preview(release, found, payer=payer, caller=who)
        return {"rows": count, **preview_facts(preview)}

    # --- answering ------------------------------------------------------------------------------

    def answer(self, served: ServedRelease, asked: Sequence[PreparedRequest]) -> list[Outcome]:
        """Of each request what becomes of it; requests for releases of one size together."""
        found: dict[int, Outcome] = {}
        for number, each in enumerate(asked):
            stored = caught(self._stored, served, each.once)
            if stored is not None:
                found[number] = stored
        new = [number for number in range(len(asked)) if number not in found]
        if new:
            rows = asked[new[0]].request.rows.count
            outcomes = answer_or_offer(served, rows, [asked[n].request for n in new])
            for number, outcome in zip(new, outcomes, strict=True):
                found[number] = caught(self._finished, served, asked[number], outcome)
        return [found[number] for number in range(len(asked))]

    def _stored(self, served: ServedRelease, once: Once | None) -> Outcome | None:
        """What was answered to an earlier request with this key."""
        if once is None:
            return None
        try:
            entries = self.vault.storage.read_snapshot(once.find)
            return None if entries is None else self._again(served, entries)
        except Refused as other:
            return other

    def _again(
        self, served: ServedRelease, entries: Sequence[tuple[str | None, int, bool]]
    ) -> ReleasedExplanation:
        """The same answer from what the ledger keeps."""
        ledger, codec = self.vault.ledger, served.release().codec

        def read(t: Reader) -> list[LoggedAnswer]:
            return [
                LoggedAnswer(
                    codec.unpack(ledger.paid(t, charge).answer), b"", record, charge, again, {}
                )
                for charge, record, again in entries
                if charge is not None
            ]

        answers = self.vault.storage.read_snapshot(read)
        whole = joined([each.explanation for each in answers])
        return served.inputs.add_context(ReleasedExplanation(whole, tuple(answers)))

    def _finished(self, served: ServedRelease, asked: PreparedRequest, outcome: Outcome) -> Outcome:
        if isinstance(outcome, AnsweredMeanwhile):
            return self._stored(served, asked.once) or outcome
        if isinstance(outcome, Exception):
            return outcome
        if outcome.replayed and outcome.charges:
            self._note_recipient(asked, outcome)
        return served.inputs.add_context(outcome)

    def _note_recipient(self, asked: PreparedRequest, outcome: ReleasedExplanation) -> None:
        """Nothing was charged, so no transaction has noted who got this answer."""
        who, once = asked.request.caller, asked.once
        records = [n for n in outcome.records if not self.is_recipient(n, who)]
        if not records and once is None:
            return

        def command(t: Transaction) -> None:
            for record in records:
                add_recipient(t, record, who)
            if once is not None and once.refuse(t) is None:
                once.keep(t, [(e.charge, e.record, e.replayed) for e in outcome.entries])

        self.vault.storage.submit(command)

    def is_recipient(self, record: int, caller: str) -> bool:
        """Whether this caller got the answer of a record."""
        return self.vault.storage.read_snapshot(lambda t: self._received(t, record, caller))

    def _received(self, t: Reader, record: int, caller: str) -> bool:
        if is_recipient(t, record, caller):
            return True
        charge = charge_of_record(self.vault, t, record)
        if charge is None:
            return False
        root, _, number = charge.rpartition("#")
        entry = entry_at(t, root, int(number))
        return entry is not None and entry.caller == caller


def charge_of_record(vault: Vault, t: Reader, record: int) -> str | None:
    """The charge that a record of the log is about; None if it is about none."""
    try:
        found = decode_record(vault.log.record(t, record))
    except InvalidInput:
        return None
    return found.charge if isinstance(found, ReleaseRecord) else None


def _plain(rows: Any) -> Any:
    return rows.tolist() if isinstance(rows, np.ndarray) else rows
