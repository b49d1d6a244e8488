"""Protected records one by one: each row is charged by itself, different rows in parallel.

The account is a parallel parent. Each named record has an account below it, with the promise of the
parent, opened in the very transaction that first charges it and called by a keyed digest of the
record's identifier: the ledger does not say who was explained.

A row without an identifier may be anybody's, also that of somebody who was named before. So it is
charged to the parent itself and adds to what every record has met: what a record can have met is
what the unnamed rows cost, plus what its own account holds. That is dear, and safe.

Under another key every record would look like a new one, with a budget of its own. So these names
begin with a mark of the key, and a key that did not name the records of an account is refused.

All rows of a call are settled in one transaction, or none of them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from typing import Final, TypeAlias

from voile.core.errors import BudgetExceeded, InvalidInput, Refused
from voile.core.identifiers import canonical_identifier
from voile.core.storage import Transaction
from voile.ledger import Account, Alert, Charge, Children, Opening, Settled
from voile.ledger.accounts import LONGEST_NAME
from voile.ledger.balances import Standing
from voile.ledger.charging import standings_after
from voile.ledger.replay import NamedRecord, ReplayKey
from voile.ledger.tables import BALANCES, CHILDREN
from voile.ledger.tree import Node
from voile.workflows.budget import opened_record
from voile.workflows.charging import Answer, Desk, Drawn, Prepared, Request

Named: TypeAlias = NamedRecord | None
"""The record behind a row; None where nobody said whose row it is."""
_SHOWN: Final = 16
_MARK: Final = 4
_LONGER: Final = 1 + 2 * (_MARK + _SHOWN)
_OF_RECORD: Final = re.compile(f"[0-9a-f]{{{2 * (_MARK + _SHOWN)}}}")
_PAGE: Final = 100


def account_of_record(key: ReplayKey, account: Account, record: NamedRecord | None) -> str:
    """The account that pays for one record; the parent itself for one without a name."""
    if record is None or not account.is_parallel:
        return account.name
    return f"{account.name}/{key_mark(key)}{key.record(record)[:_SHOWN].hex()}"


@lru_cache(maxsize=16)
def key_mark(key: ReplayKey) -> str:
    """Tells keys apart, and nothing else about them."""
    return key.nonce("accounts of records", "mark")[:_MARK].hex()


def check_account_of_records(account: Account) -> None:
    """Refuse what cannot hold an account for each record."""
    if account.is_plan:
        raise Refused(
            f"account {account.name!r} is a plan; records are explained from a filter, best a "
            "parallel one (`voile budget open --parallel`)"
        )
    if account.is_parallel and len(account.name.encode()) + _LONGER > LONGEST_NAME:
        raise Refused(f"account {account.name!r}: its name is too long for accounts of records")


def answer_rows(
    desk: Desk,
    account: Account,
    requests: Sequence[Request],
    draw: Callable[[Sequence[int]], Sequence[Drawn]],
    *,
    fresh: bool = False,
) -> tuple[Answer, ...]:
    """Answer a question for each of several records, all of them or none (`BudgetExceeded`).

    Args:
        requests: one for each row, to the account of its record.
        draw: makes the answers of the rows with these numbers.
    """
    asking = [_prepared(desk, account, request) for request in requests]
    found = desk.storage.submit(lambda t: _look(desk, t, account, asking, fresh))
    if isinstance(found, BudgetExceeded):
        raise found
    missing = [number for number, stored in enumerate(found) if stored is None]
    drawn = dict(zip(missing, draw(missing), strict=True)) if missing else {}
    try:
        settled, alerts = (
            desk.storage.submit(lambda t: _settle(desk, t, account, asking, found, drawn, fresh))
            if missing
            else ([stored for stored in found if stored is not None], [])
        )
    except BudgetExceeded as refused:
        # Everything is undone; only the refusal is kept.
        said, headline = refused, asking[0].request.guarantees[0]
        desk.storage.submit(lambda t: desk.record_refusal(t, account.name, headline, said))
        raise
    desk.tell(alerts)
    return tuple(map(desk.leaving, settled))


def _prepared(desk: Desk, parent: Account, request: Request) -> Prepared:
    """A row's request; the account of its record need not be there yet."""
    name = request.question.account
    below = name != parent.name
    account = replace(parent, name=name, children=Children.SEQUENTIAL) if below else parent
    return desk.prepare(request, account)


# --- before anything is computed ------------------------------------------------------------------


def _look(
    desk: Desk, t: Transaction, account: Account, asking: Sequence[Prepared], fresh: bool
) -> list[Settled | None] | BudgetExceeded:
    """What was answered before, and whether the rest would fit; a refusal is recorded."""
    desk.log.check(t)
    found = [None if fresh else desk.ledger.answered(t, each.asked) for each in asking]
    new = {  # a record that is named twice in one call is answered once
        number if fresh else each.asked.digest: each.charge
        for number, (each, stored) in enumerate(zip(asking, found, strict=True))
        if stored is None
    }
    try:
        _check_fits(desk, t, account, new.values())
    except BudgetExceeded as refused:
        desk.record_refusal(t, account.name, asking[0].request.guarantees[0], refused)
        return refused
    return found


def _check_fits(desk: Desk, t: Transaction, account: Account, charges: Iterable[Charge]) -> None:
    """Whether all of them fit one after the other: unnamed rows leave less for every record."""
    assert account.measure is not None
    standing: dict[str, Standing] = {}
    for charge in charges:
        path = [
            node._replace(standing=standing.get(node.account.name, node.standing))
            for node in _path(desk, t, account, charge.account)
        ]
        if not path[0].account.is_plan:  # its parts are counted when it is charged
            after = standings_after(path, account.measure.cost(charge.event))
            standing.update(zip((node.account.name for node in path), after, strict=True))


def _path(desk: Desk, t: Transaction, account: Account, name: str) -> list[Node]:
    """The way up from the account of a record, also if that was not opened yet."""
    if t.get(BALANCES, name) is not None:
        path = desk.ledger.path(t, name)
        if name != account.name and path[0].account.parent != account.name:
            raise Refused(f"account {name!r} is there already, but not below {account.name!r}")
        return path
    _check_key(desk.key, t, account)
    above = desk.ledger.path(t, account.name)
    assert account.measure is not None
    child = replace(account, name=name, parent=account.name, children=Children.SEQUENTIAL)
    return [Node(child, above[0].balance, Standing.fresh(account.measure.nothing)), *above]


def _check_key(key: ReplayKey, t: Transaction, account: Account) -> None:
    """Before an account is opened: were those that are there named with this key?"""
    mark = _first_mark(t, account.name)
    if mark is not None and mark != key_mark(key):
        raise Refused(
            f"the records of account {account.name!r} were named with another replay key; "
            "with this one each of them would get a budget of its own: use the old key"
        )


def _first_mark(t: Transaction, account: str) -> str | None:
    """The mark of the key that named the first record; other accounts may be there as well."""
    prefix = f"{account}/"
    page = t.scan(CHILDREN, account, after=prefix, limit=1)
    while page:
        for child in (row.child for row in page):
            if not child.startswith(prefix):
                return None  # they are in order: no record comes after this one
            if _OF_RECORD.fullmatch(child, len(prefix)):
                return child[len(prefix) :][: 2 * _MARK]
        page = t.scan(CHILDREN, account, after=page[-1].child, limit=_PAGE)
    return None


# --- the one transaction --------------------------------------------------------------------------


def _settle(
    desk: Desk,
    t: Transaction,
    account: Account,
    asking: Sequence[Prepared],
    found: Sequence[Settled | None],
    drawn: dict[int, Drawn],
    fresh: bool,
) -> tuple[list[Settled], list[Alert]]:
    settled: list[Settled] = []
    alerts: list[Alert] = []
    for number, (each, stored) in enumerate(zip(asking, found, strict=True)):
        if stored is None:
            stored = _settle_one(desk, t, account, each, drawn[number], fresh)
            alerts += stored.grant.alerts if stored.grant else ()
        settled.append(stored)
    return settled, alerts


def _settle_one(
    desk: Desk, t: Transaction, account: Account, asking: Prepared, drawn: Drawn, fresh: bool
) -> Settled:
    name = asking.charge.account
    if t.get(BALANCES, name) is None:
        _open(desk, t, account, name, asking.request.caller)
    return desk.pay(t, asking, drawn, fresh=fresh)


def _open(desk: Desk, t: Transaction, account: Account, name: str, caller: str) -> None:
    _check_key(desk.key, t, account)
    opening = Opening(
        name=name,
        protected=account.protected,
        epsilon=account.epsilon,
        delta=account.delta,
        parent=account.name,
    )
    desk.log.append(t, opened_record(desk.ledger.open(t, opening, caller=caller)))


def named_records(given: Sequence[object] | None, rows: int, dataset: str) -> list[Named]:
    """For each row the record that its identifier names, or None."""
    if given is None:
        return [None] * rows
    if isinstance(given, str) or len(given) != rows:
        raise InvalidInput(f"expected one identifier for each of {rows} rows, found {given!r:.80}")
    return [_named(number, each, dataset) for number, each in enumerate(given, start=1)]


def _named(row: int, identifier: object, dataset: str) -> Named:
    try:
        name = canonical_identifier(identifier)
    except InvalidInput as error:
        raise InvalidInput(f"row {row}: {error}") from None
    return None if name is None else NamedRecord(name, dataset)


def watched_records(key: ReplayKey, given: Sequence[object], dataset: str) -> frozenset[bytes]:
    """Keyed digests of a population's records, for the watch against reconstruction.

    The records are protected: a name that cannot be read is left out, and nobody is told.
    """
    found = set()
    for identifier in given:
        with suppress(InvalidInput):
            found.add(key.record(NamedRecord(identifier, dataset)))  # type: ignore[arg-type]
    return frozenset(found)
