"""One party of a federation: its rows, ledger, log and keys, and the node that speaks for it."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

from voile.app.federate.accepts import Accepts
from voile.app.federate.agreement import (
    SERVER,
    FederationAgreement,
    federation_of,
    origin_of,
)
from voile.app.federate.base import ServerSide
from voile.app.federate.books import PART as ROUNDS_PART
from voile.app.federate.books import ClientBooks, Promise
from voile.app.federate.kinds import KINDS
from voile.core.atomic_file import locked
from voile.core.errors import InvalidInput, Refused, StorageBusy
from voile.federation import AttemptsOnDisk, Client, Node, SecureMember
from voile.federation.secure_aggregation import Signer
from voile.records.audit_log import SigningKey
from voile.records.audit_log.notes import VerifierKey
from voile.records.audit_log.publishing import exported_log
from voile.records.storage import Part
from voile.records.vault import POLICY, Place, Vault, open_vault

UPDATES: Final = "updates"
ATTEMPTS: Final = "attempts"
LOCK: Final = ".federation.lock"
Say = Callable[[str], None]
"""Told in words what is being done."""


@dataclass(frozen=True, eq=False)
class Party:
    """What stays with one party.

    Args:
        name: as the agreement calls it.
        records: what it has, as its pipeline reads it.
        folder: its ledger, log, keys and stored updates.
        accepts: what it agrees to; whatever is agreed on, if None.
    """

    name: str
    records: Any = field(repr=False)
    folder: Path
    accepts: Accepts | None = None


@dataclass(frozen=True, eq=False)
class Job:
    """A federation whose parties are all in this process: what was agreed on, and what is whose."""

    agreement: FederationAgreement
    server: ServerSide
    parties: tuple[Party, ...]


@contextmanager
def open_node(
    party: Party, agreement: FederationAgreement, say: Say = lambda _: None
) -> Iterator[Node]:
    """The node of a party that takes part. Nothing is charged, nor an account opened, before the
    first round.

    Refused if the agreement does not name the party with this key and this number of rows, or
    promises more than it accepts. What its books have against it, the node says when it is asked to
    join.
    """
    _check_size(party, agreement)
    if party.accepts is not None:
        party.accepts.check(party.name, agreement)
    key = agreement.keys[party.name]
    promise = Promise(agreement.protected, agreement.epsilon_of(party.name), agreement.delta)
    opened = open_vault(party.folder, key.name, signing=None, extra_parts=_parts(agreement))
    with run_lock(party.folder), opened as vault:
        if vault.policy.log_keys != (key,):
            raise Refused(
                f"{party.folder}: {party.name!r} signs with other keys than the agreement says: "
                "put its one key there before the first round, and rotate after the last"
            )
        planned = agreement.events_of(party.name)
        books = ClientBooks(vault, party.name, promise, planned, agreement.digest, party.accepts)
        client = Client(
            name=party.name,
            size=agreement.sizes[party.name],
            records=party.records,
            tasks=agreement.tasks_of(party.name),
            guard=books,
            folder=party.folder / UPDATES,
            agreement=agreement.digest,
        )
        log = partial(signed_log, vault, party.name, say)
        yield Node(client, log, _secure(party, agreement, books))


def _parts(agreement: FederationAgreement) -> tuple[Part, ...]:
    return () if agreement.secure is None else (ROUNDS_PART,)


def _secure(
    party: Party, agreement: FederationAgreement, books: ClientBooks
) -> SecureMember | None:
    """What it adds up updates in secret with: it signs with the key of the agreement."""
    if agreement.secure is None:
        return None
    stages, in_clear = KINDS[agreement.pipeline].summed(agreement.plan)
    sign = signer_of(party.folder, agreement.keys[party.name])
    store = AttemptsOnDisk(party.folder / ATTEMPTS)
    return SecureMember(stages, sign, store, books, in_clear)


def signer_of(folder: Path, agreed: VerifierKey) -> Signer:
    """Signs with the key of the log in this folder, which all have agreed on.

    Messages and texts of a secure sum begin like no checkpoint.
    """
    path = Place.within(folder).signing_key
    key = SigningKey.load(path)
    if key.verifier != agreed:
        raise Refused(
            f"{path}: {key.name!r} signs with another key than the agreement "
            "says: bring the old one back, or agree on this one before the first round"
        )
    return lambda text: key.sign(text).value


@contextmanager
def run_lock(folder: Path) -> Iterator[None]:
    """One run at a time in a folder: two would train, store and write over each other."""
    folder.mkdir(parents=True, exist_ok=True)
    # `is_held` takes the lock for a moment: a look at a run keeps none from its start.
    with locked(
        folder / LOCK, patience=0.2, busy="another run of a federation is using this folder"
    ):
        yield


def is_held(folder: Path) -> bool:
    """Whether a run uses this folder now."""
    if not (folder / LOCK).exists():
        return False
    try:
        with locked(folder / LOCK, patience=0, busy=""):
            return False
    except StorageBusy:
        return True


def _check_size(party: Party, agreement: FederationAgreement) -> None:
    """The number of rows is public, so that it may be told."""
    declared, found = agreement.sizes.get(party.name), len(party.records)
    if declared is None:
        raise Refused(f"{party.name!r} is not a party of {agreement.name!r}")
    if declared != found:
        raise Refused(
            f"{party.name!r} declared {declared} rows but has {found}, so it does not take part. "
            "The number is public: correct it in the agreement"
        )


def check_name(name: str, folder: Path) -> None:
    """Refuse a federation that was renamed after the server's log was begun in this folder.

    The log, its key and every record in it carry the old name.
    """
    path = Place.within(folder).signing_key
    if not path.exists():
        return
    found = SigningKey.load(path).verifier.name
    if found != origin_of(name, SERVER):
        raise InvalidInput(
            f"the federation is called {name!r} in federation.toml, and {folder} belongs to "
            f"{federation_of(found)!r}. Set `name` back, or start {name!r} in a new folder: "
            f"voile init DATA... --name {shlex.quote(name)} --output FOLDER. Where parties are on "
            "other machines, name a new `output` in server.toml and run `voile federate keygen "
            "federation.toml`"
        )


def party_key(folder: Path, origin: str) -> VerifierKey:
    """The key of a party that keeps its books in this folder; made, if there is none."""
    with open_vault(folder, origin, signing=None) as vault:
        return vault.policy.log_keys[0]


def signed_log(vault: Vault, party: str, say: Say) -> dict[str, bytes]:
    """A whole log, signed now, as files by name."""
    missing = vault.publish().missing
    if missing:
        say(
            f"the log of {party} lacks {missing} cosignature(s) that its policy requires; run the "
            "same command again to ask its witnesses"
        )
    log = exported_log(vault.storage, vault.log)
    return {**log, POLICY: str(vault.policy).encode()}
