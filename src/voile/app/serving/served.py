"""A workspace as it is served: all releases loaded once, and requests of strangers to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np

from voile.app.explain import ExplanationRequest, RowsToExplain
from voile.app.explain.charging import Settlement
from voile.app.explain.released import LoggedAnswer, ReleasedExplanation, joined
from voile.app.explain.service import ReleaseService
from voile.app.explain.walk import Outcome, caught
from voile.app.serving.callers import Caller, NotAuthenticated, NotGranted
from voile.app.serving.levels import answer_or_offer
from voile.app.serving.once import AnsweredMeanwhile, Entry, Once, Receiving
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
    rows_of_accounts,
)
from voile.records.audit_log import ReleaseRecord, Witness, decode_record
from voile.records.ledger.history import entry_at, rows_of_charges
from voile.records.storage import Reader, Transaction
from voile.records.storage.session import ReadOnce
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
class CallerRequest:
    """Who asks for what.

    Args:
        part: its number among several that were sent together, with one key against repetition.
    """

    asked: AskedExplanation
    caller: Caller
    part: int = 0


@dataclass(frozen=True)
class ServedAnswer:
    """An explanation that may leave, and the rows it is about."""

    explained: ReleasedExplanation
    rows: RowsToExplain


@dataclass(frozen=True)
class _Prepared:
    """A request that was checked.

    Args:
        once: what recognises its repetition.
        answered: what was answered to an earlier request with this key.
    """

    request: ExplanationRequest
    once: Once | None = None
    answered: ReleasedExplanation | None = None


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

    def answer(
        self, served: ServedRelease, requests: Sequence[CallerRequest]
    ) -> list[ServedAnswer | Exception]:
        """Of each request what becomes of it.

        They share a look at what is there, a call of the explainer and a transaction for each
        number of rows, and no outcome. A fault of the database is everybody's, and is raised.
        """
        found = self._prepare_all(served, requests)
        new: dict[int, list[int]] = {}
        for number, each in enumerate(found):
            if isinstance(each, _Prepared) and each.answered is None:
                new.setdefault(each.request.rows.count, []).append(number)
        for rows, numbers in new.items():
            self._answer_new(served, rows, numbers, found)
        return [_leaving(each) for each in found]

    def _prepare_all(
        self, served: ServedRelease, requests: Sequence[CallerRequest]
    ) -> list[_Prepared | Exception]:
        """Everything about them is checked but whether the budget covers them; of one moment."""
        if served.is_free:
            return [caught(self._prepare, None, served, each) for each in requests]

        def look(t: Reader) -> list[_Prepared | Exception]:
            reader = ReadOnce(t)
            named = {each.asked.account for each in requests} - {None}
            self._read_ahead(reader, [str(name) for name in named])
            prepared = [caught(self._prepare, reader, served, each) for each in requests]
            once = [each.once for each in prepared if isinstance(each, _Prepared) and each.once]
            reader.get_all([row for each in once for row in each.rows])
            return [
                each
                if isinstance(each, Exception)
                else caught(self._recognised, reader, served, each)
                for each in prepared
            ]

        return self.vault.storage.read_snapshot(look)

    def _read_ahead(self, reader: ReadOnce, accounts: Sequence[str]) -> None:
        """One statement costs more than what it is about."""
        with suppress(InvalidInput):  # what can be no name is told to whoever has sent it
            reader.get_all([*rows_of_accounts(accounts), *self.vault.ledger.rows(accounts)])

    def _prepare(
        self, t: Reader | None, served: ServedRelease, request: CallerRequest
    ) -> _Prepared:
        asked, caller = request.asked, request.caller
        rows = served.read(asked.rows)
        self._check_size(rows.count)
        if t is None:
            return self._prepared(rows, None, asked, caller, Receiving(caller.grants.caller))
        payer = self._payer(t, served, asked, caller, rows)
        once = self._once(served, asked, caller, payer, rows)
        once = None if once is None else once.part(request.part)
        return replace(self._prepared(rows, payer, asked, caller, once), once=once)

    def _recognised(self, t: Reader, served: ServedRelease, asked: _Prepared) -> _Prepared:
        """With what was answered to an earlier request with this key."""
        entries = None if asked.once is None else asked.once.find(t)
        return (
            asked if entries is None else replace(asked, answered=self._again(t, served, entries))
        )

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
    ) -> _Prepared:
        request = ExplanationRequest(
            rows=rows,
            payer=payer,
            caller=caller.grants.caller,
            purpose=asked.purpose,
            fresh=asked.redraw,
            coarser=asked.coarser,
            settlement=settlement,
        )
        return _Prepared(request)

    def _payer(
        self,
        t: Reader,
        served: ServedRelease,
        asked: AskedExplanation,
        caller: Caller,
        rows: RowsToExplain,
    ) -> str:
        """The account that is named: the release's own, or one of a tenant below it."""
        if asked.account is None:
            price = served.release(rows.count).preview(rows.count)
            raise PaymentNeeded(served.with_remarks(price))
        account, own = self._granted(t, asked.account, caller), served.job.spec.account
        path = self.vault.ledger.path(t, account)
        above = {node.account.name: node.account for node in path}
        # Whoever names the account of one record would have another person pay from it.
        if own not in above or above[own].is_parallel != path[0].account.is_parallel:
            raise NotGranted("this account does not pay for this release")
        return account

    def _granted(self, t: Reader, named: str, caller: Caller) -> str:
        """The account, if the caller may use it; nobody else learns whether it is there."""
        found = self._account(t, named)
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
        told += ["coarser"] if asked.coarser else []  # keys of earlier versions stay the same
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
        payer: str | None = None
        if account is not None and not free:
            named = account
            payer = self.vault.storage.read_snapshot(lambda t: self._granted(t, named, caller))
        release = served.release(count)
        who = caller.grants.caller
        preview = self.service.preview(release, found, payer=payer, caller=who)
        return {"rows": count, **preview_facts(served.with_remarks(preview))}

    # --- answering ------------------------------------------------------------------------------

    def _answer_new(
        self,
        served: ServedRelease,
        rows: int,
        numbers: Sequence[int],
        found: list[_Prepared | Exception],
    ) -> None:
        """Requests about so many rows each; what becomes of them takes their places in `found`."""
        asked = [each for n in numbers if isinstance(each := found[n], _Prepared)]
        outcomes = answer_or_offer(served, rows, [each.request for each in asked])
        told = [
            caught(self._finished, served, each, outcome)
            for each, outcome in zip(asked, outcomes, strict=True)
        ]
        self._note_recipients([each for each in told if isinstance(each, _Prepared)])
        for number, each in zip(numbers, told, strict=True):
            found[number] = each

    def _finished(self, served: ServedRelease, asked: _Prepared, outcome: Outcome) -> _Prepared:
        if isinstance(outcome, AnsweredMeanwhile) and asked.once is not None:
            outcome = self._answered_meanwhile(served, asked.once) or outcome
        elif isinstance(outcome, ReleasedExplanation):
            outcome = served.inputs.add_context(outcome)
        if isinstance(outcome, Exception):
            raise outcome
        return replace(asked, answered=outcome)

    def _answered_meanwhile(self, served: ServedRelease, once: Once) -> ReleasedExplanation | None:
        """By another process, to a request with this key."""

        def look(t: Reader) -> ReleasedExplanation | None:
            entries = once.find(t)
            return None if entries is None else self._again(t, served, entries)

        return self.vault.storage.read_snapshot(look)

    def _again(
        self, t: Reader, served: ServedRelease, entries: Sequence[Entry]
    ) -> ReleasedExplanation:
        """The same answer from what the ledger keeps."""
        ledger, codec = self.vault.ledger, served.release().codec
        answers = [
            LoggedAnswer(
                codec.unpack(ledger.paid(t, charge).answer), b"", record, charge, again, {}
            )
            for charge, record, again in entries
            if charge is not None
        ]
        whole = joined([each.explanation for each in answers])
        return served.inputs.add_context(ReleasedExplanation(whole, tuple(answers)))

    def _note_recipients(self, answered: Sequence[_Prepared]) -> None:
        """Where nothing was charged, no transaction has noted who got the answer."""
        again = [
            (each.request.caller, each.once, each.answered.entries)
            for each in answered
            if each.answered is not None and each.answered.charges and each.answered.replayed
        ]
        if not again:
            return

        def missing(t: Reader) -> list[tuple[int, str]]:
            reader = ReadOnce(t)
            pairs = {(e.record, who): e.charge for who, _, entries in again for e in entries}
            reader.get_all(rows_of_charges(charge for charge in pairs.values() if charge))
            return [
                (record, who)
                for (record, who), charge in pairs.items()
                if not self._received(reader, record, who, charge)
            ]

        recipients = self.vault.storage.read_snapshot(missing)
        kept = [(once, entries) for _, once, entries in again if once is not None]
        if not recipients and not kept:
            return

        def command(t: Transaction) -> None:
            for record, who in recipients:
                add_recipient(t, record, who)
            for once, entries in kept:
                if once.refuse(t) is None:
                    once.keep(t, [(e.charge, e.record, e.replayed) for e in entries])

        self.vault.storage.submit(command)

    def is_recipient(self, record: int, caller: Caller) -> bool:
        """Whether this caller got the answer of a record, and may still use the account that paid.

        A name alone does not do: keys of one name may have been issued for different accounts.
        """

        def look(t: Reader) -> bool:
            charge = charge_of_record(self.vault, t, record)
            return self._received(t, record, caller.grants.caller, charge) and (
                charge is None or self._covers(t, charge, caller)
            )

        return self.vault.storage.read_snapshot(look)

    def _covers(self, t: Reader, charge: str, caller: Caller) -> bool:
        """Whether one of the accounts that a charge counted in was granted."""
        root, _, number = charge.rpartition("#")
        entry = entry_at(t, root, int(number))
        if entry is None:
            return False
        path = self.vault.ledger.path(t, entry.account)
        return any(caller.grants.covers(node.account.name) for node in path)

    def _received(self, t: Reader, record: int, caller: str, charge: str | None = None) -> bool:
        """Of a record whose charge is known, its charge is not looked up in the log."""
        charge = charge or charge_of_record(self.vault, t, record)
        if charge is not None:
            root, _, number = charge.rpartition("#")
            entry = entry_at(t, root, int(number))
            if entry is not None and entry.caller == caller:
                return True
        return is_recipient(t, record, caller)


def _leaving(found: _Prepared | Exception) -> ServedAnswer | Exception:
    if isinstance(found, Exception):
        return found
    assert found.answered is not None
    return ServedAnswer(found.answered, found.request.rows)


def charge_of_record(vault: Vault, t: Reader, record: int) -> str | None:
    """The charge that a record of the log is about; None if it is about none."""
    try:
        found = decode_record(vault.log.record(t, record))
    except InvalidInput:
        return None
    return found.charge if isinstance(found, ReleaseRecord) else None


def _plain(rows: Any) -> Any:
    return rows.tolist() if isinstance(rows, np.ndarray) else rows
