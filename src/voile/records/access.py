"""Who may ask a service, and what it keeps of requests: keys, repeated requests, recipients.

An API key is `voile_ID_SECRET`: the secret has 256 random bits, so SHA-256 of it is all that is
stored. A slow hash would cost time and buy nothing against a secret that nobody can guess.

Every function works inside a transaction of the caller's, as the ledger's do.

Compatibility promise: tables of a released version keep their names, columns and meaning; a change
is a new version of `PART` with a migration.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import math
import re
import secrets
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, NamedTuple, Self

from voile.core.errors import InvalidInput
from voile.core.transparency import Level, Role
from voile.records.ledger import ReplayKey
from voile.records.storage import Part, Reader, Table, Transaction
from voile.records.storage.tables import Key

ANY_ACCOUNT: Final = "*"
"""In place of names: every account."""
LONGEST_CALLER: Final = 64
_SECRET_BYTES: Final = 32
_CALLER: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@ -]*")
_KEY: Final = re.compile(r"voile_([0-9a-f]{12})_([A-Za-z0-9_-]{43})")


class Duty(StrEnum):
    """A right of a key; roles belong to transparency levels.

    >>> Duty("explain").value
    'explain'
    """

    EXPLAIN = "explain"
    """Ask for explanations, and pay for them from accounts of the key."""
    OBSERVE = "observe"
    """See budgets, forecasts and history of these accounts."""
    AUDIT = "audit"
    """See the log and its proofs, and all budgets; never rows or answers."""
    ADMINISTER = "administer"
    """Open and renew accounts, issue and revoke keys."""
    APPROVE = "approve"
    """Approve expensive charges that somebody else asked for, on accounts of the key."""
    OPERATE = "operator"
    """See metrics and the interface's description."""


@dataclass(frozen=True, kw_only=True)
class Grants:
    """What somebody who asks may do.

    Args:
        caller: who it is, in the ledger; two keys of one caller are the same person.
        duties: what may be done.
        roles: for transparency levels; the highest one counts.
        level: the most detailed level that is shown.
        accounts: names of accounts; `*` for all.
        rate: requests a minute; 0 for no limit.

    >>> Grants(caller="ward 3", duties=frozenset({Duty.EXPLAIN})).covers("clinic")
    False
    """

    caller: str
    duties: frozenset[Duty]
    roles: frozenset[Role] = frozenset({Role.ANALYST})
    level: Level = Level.DETAILED
    accounts: tuple[str, ...] = ()
    rate: int = 600

    def __post_init__(self) -> None:
        if not self.duties:
            raise InvalidInput(f"name at least one duty: {', '.join(Duty)}")
        if self.rate < 0:
            raise InvalidInput("a rate is a number of requests a minute, 0 for no limit")

    def covers(self, account: str) -> bool:
        """Whether this account was granted."""
        return ANY_ACCOUNT in self.accounts or account in self.accounts

    @property
    def is_unlimited(self) -> bool:
        """Whether all accounts were granted."""
        return ANY_ACCOUNT in self.accounts


class KeyRow(NamedTuple):
    """An API key. `digest` is SHA-256 of its secret; a set of words is joined by spaces."""

    identifier: str
    digest: bytes
    caller: str
    duties: str
    roles: str
    level: str
    accounts: str
    rate: int
    created: float
    expires: float
    revoked: float | None

    @property
    def grants(self) -> Grants:
        """What it allows."""
        return Grants(
            caller=self.caller,
            duties=frozenset(map(Duty, self.duties.split())),
            roles=frozenset(map(Role, self.roles.split())),
            level=Level(self.level),
            accounts=tuple(json.loads(self.accounts)),
            rate=self.rate,
        )

    def is_valid(self, now: float) -> bool:
        """Neither expired nor revoked."""
        return self.revoked is None and now < self.expires


class RepeatRow(NamedTuple):
    """A request that carried a key against repetition, and what was answered to it.

    Args:
        scope: keyed digest of caller, account, endpoint and key.
        payload: keyed digest of what was asked.
        answers: JSON, of each entry the charge, the record and whether it was given again.
        time: of the commit.
    """

    scope: bytes
    payload: bytes
    answers: str
    time: float


class RecipientRow(NamedTuple):
    """Who got an answer that the ledger's journal does not name them for."""

    record: int
    caller: str


class AccountNameRow(NamedTuple):
    """The name of an account in addresses, where its own name does not belong."""

    public: str
    account: str


KEYS: Final = Table("service_keys", KeyRow, key=("identifier",))
REPEATS: Final = Table("service_repeats", RepeatRow, key=("scope",))
RECIPIENTS: Final = Table("service_recipients", RecipientRow, key=("record", "caller"))
ACCOUNTS: Final = Table("service_accounts", AccountNameRow, key=("public",))
PART: Final = Part("service", (KEYS, REPEATS, RECIPIENTS, ACCOUNTS))
"""Open the storage with this part to serve from it."""


# --- keys -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class NewKey:
    """A key as it is shown once.

    Args:
        text: for the person who will use it.
    """

    row: KeyRow
    text: str

    @classmethod
    def generate(cls, grants: Grants, *, now: float, seconds: float) -> Self:
        """A key that expires after so many seconds.

        Its caller has no colon in the name: those of tokens have one.
        """
        if not _CALLER.fullmatch(grants.caller) or len(grants.caller) > LONGEST_CALLER:
            raise InvalidInput(
                "a caller is named with letters, digits, spaces and ._@- in at most "
                f"{LONGEST_CALLER} characters"
            )
        if not 0 < seconds < math.inf:
            raise InvalidInput("a key expires: state a positive number of days")
        identifier, secret = secrets.token_hex(6), secrets.token_urlsafe(_SECRET_BYTES)
        row = KeyRow(
            identifier,
            _digest(secret),
            grants.caller,
            _words(grants.duties),
            _words(grants.roles),
            grants.level.value,
            json.dumps(list(grants.accounts)),
            grants.rate,
            now,
            now + seconds,
            None,
        )
        return cls(row, f"voile_{identifier}_{secret}")


def add_key(t: Transaction, key: NewKey) -> None:
    """Keep a new key."""
    t.insert(KEYS, key.row)


def find_key(t: Reader, text: str, now: float) -> KeyRow | None:
    """The key that was sent, if it is one of ours and valid now.

    The secret is compared in constant time. A key that is not there is compared as well.
    """
    read = _KEY.fullmatch(text)
    identifier, secret = read.groups() if read else ("", "")
    row = t.get(KEYS, identifier)
    same = hmac.compare_digest(_digest(secret), bytes(32) if row is None else row.digest)
    return row if row is not None and same and row.is_valid(now) else None


def is_key(text: str) -> bool:
    """Whether this has the form of a key."""
    return text.startswith("voile_")


def revoke_key(t: Transaction, identifier: str, now: float) -> KeyRow:
    """End a key now; a key that has ended stays as it is."""
    row = t.get(KEYS, identifier)
    if row is None:
        raise InvalidInput("there is no key of this name; `voile keys list` shows them")
    if row.revoked is None:
        row = row._replace(revoked=now)
        t.replace(KEYS, row)
    return row


def list_keys(t: Reader) -> list[KeyRow]:
    """All keys, also those that have ended."""
    return t.scan(KEYS)


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode()).digest()


def _words(found: Sequence[StrEnum] | frozenset[Duty] | frozenset[Role]) -> str:
    return " ".join(sorted(each.value for each in found))


# --- names of accounts ---------------------------------------------------------------------------


def public_name(key: ReplayKey, account: str) -> str:
    """The name of an account in addresses: nobody without the key can tell whose it is."""
    return key.nonce(account, "public name of an account")[:10].hex()


def register_accounts(t: Transaction, key: ReplayKey, accounts: Iterable[str]) -> None:
    """Make accounts known by their public names."""
    for account in accounts:
        public = public_name(key, account)
        if t.get(ACCOUNTS, public) is None:
            t.insert(ACCOUNTS, AccountNameRow(public, account))


def find_account(t: Reader, public: str) -> str | None:
    """The account of a public name."""
    row = t.get(ACCOUNTS, public)
    return None if row is None else row.account


def rows_of_accounts(named: Iterable[str]) -> list[tuple[Table[Any], Key]]:
    """Which records `find_account` reads for these names."""
    return [(ACCOUNTS, (name,)) for name in named]


def registered_accounts(t: Reader) -> list[AccountNameRow]:
    """All accounts with a public name."""
    return t.scan(ACCOUNTS)


# --- recipients -----------------------------------------------------------------------------------


def add_recipient(t: Transaction, record: int, caller: str) -> None:
    """Note who got the answer of a record, once."""
    row = RecipientRow(record, caller)
    if t.get(RECIPIENTS, record, caller) is None:
        t.insert(RECIPIENTS, row)


def is_recipient(t: Reader, record: int, caller: str) -> bool:
    """Whether this caller got the answer of a record."""
    return t.get(RECIPIENTS, record, caller) is not None


# --- what is kept of old requests ----------------------------------------------------------------


class OldRequests(NamedTuple):
    """What is kept of requests and keys from before a moment, by its keys in the tables."""

    repeats: tuple[Key, ...]
    recipients: tuple[Key, ...]
    keys: tuple[Key, ...]


def old_requests(
    t: Reader, before: float, charges: frozenset[str], is_old: Callable[[int], bool]
) -> OldRequests:
    """All of it.

    Args:
        charges: whose answers are erased: no request gets them again.
        is_old: whether a record of the log is from before that moment.
    """
    repeats, recipients, keys = t.scan(REPEATS), t.scan(RECIPIENTS), t.scan(KEYS)
    return OldRequests(
        tuple((r.scope,) for r in repeats if r.time < before or _names(r, charges)),
        tuple((r.record, r.caller) for r in recipients if is_old(r.record)),
        tuple((r.identifier,) for r in keys if min(r.revoked or r.expires, r.expires) < before),
    )


def erase_requests(t: Transaction, found: OldRequests) -> None:
    """Erase it."""
    for table, keys in ((REPEATS, found.repeats), (RECIPIENTS, found.recipients)):
        t.delete_all(table, keys)
    t.delete_all(KEYS, found.keys)


def _names(row: RepeatRow, charges: frozenset[str]) -> bool:
    return any(charge in charges for charge, _, _ in json.loads(row.answers))
