"""API keys, from the command to the result: issued, listed and revoked, on record."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from voile.app.calls import Context
from voile.app.commands.serve import AddKey, ListKeys, RevokeKey
from voile.app.workspace.file import WorkspaceFile
from voile.core.choices import member
from voile.core.errors import InvalidInput, Refused
from voile.core.transparency import Level
from voile.records.access import (
    ANY_ACCOUNT,
    PART,
    Duty,
    Grants,
    KeyRow,
    NewKey,
    add_key,
    list_keys,
    register_accounts,
    revoke_key,
)
from voile.records.audit_log import KeyIssuedRecord, KeyRevokedRecord
from voile.records.checkpoints import Kept
from voile.records.storage import Reader, Transaction
from voile.records.vault import Vault, open_vault_at

COMMAND_LINE: Final = "command line"
_DAY: Final = 86_400.0


@dataclass(frozen=True)
class KeyResult:
    """A key that was issued or revoked, and the checkpoint after it.

    Args:
        text: the key itself, shown once; empty if it was revoked.
        kept: None where a schedule signs.
    """

    row: KeyRow
    text: str = field(default="", repr=False)
    kept: Kept | None = None


@dataclass(frozen=True)
class KeyList:
    """All keys, by their public names."""

    rows: tuple[KeyRow, ...]


def add(command: AddKey, _context: Context) -> KeyResult:
    """Issue a key, on record."""
    grants = grants_of(command)
    with _vault(command) as vault:
        check_accounts(vault, grants)
        new = issue(vault, grants, seconds=_DAY * command.days, issuer=COMMAND_LINE)
        return KeyResult(new.row, new.text, vault.keep())


def list_all(command: ListKeys, _context: Context) -> KeyList:
    """Public facts of all keys."""
    with _vault(command) as vault:
        return KeyList(tuple(vault.storage.read_snapshot(list_keys)))


def revoke(command: RevokeKey, _context: Context) -> KeyResult:
    """End a key, on record."""
    with _vault(command) as vault:
        return KeyResult(end(vault, command.key, issuer=COMMAND_LINE), kept=vault.keep())


def grants_of(command: AddKey) -> Grants:
    """What a command grants; `InvalidInput` names a duty that is not there."""
    return Grants(
        caller=command.holder,
        duties=frozenset(member(Duty, each) for each in command.duties),
        roles=frozenset(command.roles),
        level=command.level,
        accounts=command.accounts,
        rate=command.rate,
    )


def issue(vault: Vault, grants: Grants, *, seconds: float, issuer: str) -> NewKey:
    """A new key; the log says so in the same transaction."""
    new = NewKey.generate(grants, now=time.time(), seconds=seconds)
    row = new.row
    record = KeyIssuedRecord(
        time=int(row.created),
        key=row.identifier,
        duties=row.duties,
        expires=int(row.expires),
        issuer=issuer,
    )

    def command(t: Transaction) -> None:
        add_key(t, new)
        named = [each for each in grants.accounts if each != ANY_ACCOUNT]
        there = [each for each in named if vault.ledger.is_open(t, each)]
        register_accounts(t, vault.key, there)
        vault.log.append(t, record)

    vault.storage.submit(command)
    return new


def end(vault: Vault, identifier: str, *, issuer: str) -> KeyRow:
    """Revoke a key; the log says so in the same transaction."""

    def command(t: Transaction) -> KeyRow:
        now = time.time()
        row = revoke_key(t, identifier, now)
        record = KeyRevokedRecord(time=int(now), key=row.identifier, issuer=issuer)
        vault.log.append(t, record)
        return row

    return vault.storage.submit(command)


def check_accounts(vault: Vault, grants: Grants) -> None:
    """Refuse names of accounts that are not there: a mistyped one would grant nothing."""

    def missing(t: Reader) -> list[str]:
        named = (each for each in grants.accounts if each != ANY_ACCOUNT)
        return [each for each in named if not vault.ledger.is_open(t, each)]

    if found := vault.storage.read_snapshot(missing):
        raise InvalidInput(
            f"there is no account {', '.join(map(repr, found))}; `voile budget show` lists them"
        )


def check_may_grant(issuer: Grants, wanted: Grants) -> None:
    """Nobody grants what reaches further than their own accounts.

    Duties that see everything take an administrator of all accounts. Levels and roles are those of
    the administrator at most.
    """
    if issuer.is_unlimited:
        return
    if not all(issuer.covers(each) for each in wanted.accounts):
        raise Refused("a key can be issued for your own accounts only")
    if wanted.duties - {Duty.EXPLAIN, Duty.OBSERVE}:
        raise Refused("only an administrator of all accounts can grant this duty")
    ladder = list(Level)
    if ladder.index(wanted.level) > ladder.index(issuer.level) or wanted.roles - issuer.roles:
        raise Refused("a key can be issued up to your own level, and for your own roles")


def check_caller(vault: Vault, issuer: Grants, wanted: Grants) -> None:
    """Two keys of one name are the same person, who gets what was answered to either. So nobody
    issues a key in the name of somebody whose keys reach further than their own accounts."""
    for row in vault.storage.read_snapshot(list_keys):
        if row.caller == wanted.caller and not may_grant(issuer, row.grants):
            raise Refused("this caller has a key that you could not have issued")


def may_grant(issuer: Grants, wanted: Grants) -> bool:
    """Whether `check_may_grant` would refuse nothing."""
    try:
        check_may_grant(issuer, wanted)
    except Refused:
        return False
    return True


def key_facts(row: KeyRow) -> dict[str, Any]:
    """What may be shown of a key."""
    grants = row.grants
    return {
        "key": row.identifier,
        "caller": row.caller,
        "duties": row.duties.split(),
        "roles": row.roles.split(),
        "level": row.level,
        "accounts": list(grants.accounts),
        "rate": row.rate,
        "created": row.created,
        "expires": row.expires,
        "revoked": row.revoked,
    }


def all_facts(rows: Sequence[KeyRow]) -> list[dict[str, Any]]:
    """The same of several."""
    return [key_facts(each) for each in rows]


@contextmanager
def _vault(command: AddKey | ListKeys | RevokeKey) -> Iterator[Vault]:
    place = WorkspaceFile.read(command.workspace).place
    with open_vault_at(place, signing=None, extra_parts=(PART,)) as vault:
        yield vault
