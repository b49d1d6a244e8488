"""Protected records one by one: each row is charged by itself, different rows in parallel.

The account is a parallel parent. Each named record has an account below it, with the promise of the
parent, opened in the very transaction that first charges it and called by a keyed digest of the
record's identifier: the ledger does not say who was explained.

A row without an identifier may be anybody's, also that of somebody who was named before. So it is
charged to the parent itself and adds to what every record has met: what a record can have met is
what the unnamed rows cost, plus what its own account holds. That is dear, and safe.

Earlier versions spelled some identifiers in another way, and only digests of them are stored. Who
asks under such a spelling is found under it too, and pays for what it has spent (`charging`).

Under another key every record would look like a new one, with a budget of its own. So these names
begin with a mark of the key, and a key that did not name the records of an account is refused.

All rows of one caller are settled in one transaction, or none of them (`charging`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Final, TypeAlias

from voile.core.errors import InvalidInput, Refused
from voile.core.identifiers import canonical_identifier
from voile.core.once_each import once_each
from voile.privacy.events import PrivacyEvent
from voile.records.ledger import (
    LONGEST_NAME,
    Account,
    Ledger,
    NamedRecord,
    Question,
    ReplayKey,
    recent_charges,
)
from voile.records.ledger.event_text import event_from
from voile.records.storage import Reader
from voile.records.vault import Vault

Named: TypeAlias = NamedRecord | None
"""The record behind a row; None where nobody said whose row it is."""
_SHOWN: Final = 16
_MARK: Final = 4
_LONGER: Final = 1 + 2 * (_MARK + _SHOWN)
_OF_RECORD: Final = re.compile(f"[0-9a-f]{{{2 * (_MARK + _SHOWN)}}}")
_PAGE: Final = 100
_PART_SHOWN: Final = 2 * _SHOWN - 8
_OF_ONE_RECORD: Final = re.compile(
    f"(.+)/(?:[0-9a-f]{{{2 * (_MARK + _SHOWN)}}}|carried [0-9a-f]{{{_PART_SHOWN}}})", re.DOTALL
)
"""Also those that mark what was carried over from an earlier spelling."""


def account_of_record(key: ReplayKey, account: Account, record: NamedRecord | None) -> str:
    """The account that pays for one record; the parent itself for one without a name."""
    if record is None or not account.is_parallel:
        return account.name
    return f"{account.name}/{key_mark(key)}{key.record(record)[:_SHOWN].hex()}"


def parent_of_record(account: str) -> str | None:
    """Of an account of a single record, by its name, the one above it; None for any other.

    >>> parent_of_record("people/" + 40 * "a"), parent_of_record("people")
    ('people', None)
    """
    found = _OF_ONE_RECORD.fullmatch(account)
    return None if found is None else found[1]


@once_each
def key_mark(key: ReplayKey) -> str:
    """Tells keys apart, and nothing else about them."""
    return key.nonce("accounts of records", "mark")[:_MARK].hex()


def check_account_of_records(account: Account) -> None:
    """Refuse what cannot hold an account for each record."""
    if account.is_plan:
        raise Refused(
            f"account {account.name!r} has a fixed plan and cannot pay for single records; open "
            "another one with `voile budget open --parallel`"
        )
    if account.is_parallel and len(account.name.encode()) + _LONGER > LONGEST_NAME:
        raise Refused(f"account {account.name!r}: its name is too long for accounts of records")


def check_key_of_records(
    vault: Vault, t: Reader, account: Account, charged: Iterable[str], *, looking: bool
) -> None:
    """Before an account is opened: were those that are there named with this key?

    Args:
        looking: it is asked again before anything is written, so what was found before will do.
    """
    ledger = vault.ledger
    if all(ledger.is_open(t, name) for name in charged):
        return
    terms = ledger.node(t, account.name).balance.terms
    mark = ledger.marks.get(terms) if looking else None
    if mark is None:
        mark = _first_mark(ledger, t, account.name)
        ledger.keep_mark(terms, mark)
    if mark is not None and mark != key_mark(vault.key):
        raise Refused(
            f"the records of account {account.name!r} were named with another replay key. Use "
            "that key: with this one, every record would get a second budget"
        )


def _first_mark(ledger: Ledger, t: Reader, account: str) -> str | None:
    """The mark of the key that named the first record; other accounts may be there as well."""
    prefix = f"{account}/"
    child = ledger.first_child(t, account, after=prefix)
    page = [] if child is None else [child]
    while page:
        for child in page:
            if not child.startswith(prefix):
                return None  # they are in order: no record comes after this one
            if _OF_RECORD.fullmatch(child, len(prefix)):
                return child[len(prefix) :][: 2 * _MARK]
        page = ledger.children(t, account, after=page[-1], limit=_PAGE)
    return None


# --- accounts under an earlier spelling -----------------------------------------------------------


def accounts_to_carry(
    vault: Vault, t: Reader, question: Question
) -> dict[str, tuple[PrivacyEvent, ...]]:
    """What the record has spent under earlier spellings of its name, by account.

    It is charged once more, to the account of the canonical spelling: a record has one budget, in
    whatever spelling it was spent. An account below the old one marks what was carried over.
    """
    found: dict[str, tuple[PrivacyEvent, ...]] = {}
    for name in question.accounts[1:]:
        if vault.ledger.is_open(t, name) and not vault.ledger.is_open(t, carried_mark(name)):
            account, balance, _ = vault.ledger.node(t, name)
            charges = recent_charges(vault.ledger, t, name, since=account.opened)
            now = [event_from(each.event) for each in charges if each.period == balance.period]
            found |= {name: tuple(now)} if now else {}
    return found


def carried_mark(account: str) -> str:
    """The account that says: what this one has spent was carried over. Not longer than its name."""
    return f"{account[: -2 * (_MARK + _SHOWN)]}carried {account[-2 * _SHOWN :][:_PART_SHOWN]}"


def named_records(given: Sequence[object] | None, rows: int, dataset: str) -> list[Named]:
    """For each row the record that its identifier names, or None."""
    if given is None:
        return [None] * rows
    if isinstance(given, str) or len(given) != rows:
        raise InvalidInput(f"expected one identifier for each of {rows} rows, found {given!r:.80}")
    return [_named(number, each, dataset) for number, each in enumerate(given, start=1)]


def _named(row: int, identifier: object, dataset: str) -> Named:
    try:
        named = canonical_identifier(identifier) is not None
    except InvalidInput as error:
        raise InvalidInput(f"row {row}: {error}") from None
    # As it was given: an earlier version may have stored it under another spelling.
    return NamedRecord(identifier, dataset) if named else None  # type: ignore[arg-type]


def watched_records(key: ReplayKey, given: Sequence[object], dataset: str) -> frozenset[bytes]:
    """Keyed digests of a population's records, for the watch against reconstruction.

    The records are protected: a name that cannot be read is left out, and nobody is told.
    """
    found = set()
    for identifier in given:
        with suppress(InvalidInput):
            found.add(key.record(NamedRecord(identifier, dataset)))  # type: ignore[arg-type]
    return frozenset(found)
