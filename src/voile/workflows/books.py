"""The books of one party: its ledger and its audit log in one database, its keys beside it.

A folder of four files, named as the commands of `voile` expect them: `log.db`, `audit.key` and
`replay.key` (mode 0600), `audit-policy.toml`. The last is public: whoever has it can check receipts
and exports.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from voile.audit_log import AuditLog, Policy, SigningKey
from voile.audit_log.publishing import Published
from voile.core.atomic_file import replace_file
from voile.core.errors import InvalidInput
from voile.core.storage import Storage, open_storage
from voile.ledger import Ledger, ReplayKey
from voile.workflows.budget import keep_checkpoint
from voile.workflows.charging import PARTS, Desk

DATABASE: Final = "log.db"
LOG_KEY: Final = "audit.key"
REPLAY_KEY: Final = "replay.key"
POLICY: Final = "audit-policy.toml"


@dataclass(frozen=True)
class Books:
    """Open books."""

    folder: Path
    storage: Storage
    ledger: Ledger
    log: AuditLog
    policy: Policy
    key: ReplayKey

    @property
    def desk(self) -> Desk:
        """Where private questions are answered from these books."""
        return Desk(self.storage, self.ledger, self.log, self.key)

    def publish(self) -> Published:
        """Sign what the log holds, and keep a copy of the checkpoint beside the key."""
        return keep_checkpoint(self.storage, self.log, self.policy, self.folder / LOG_KEY)


@contextmanager
def open_books(folder: Path, origin: str) -> Iterator[Books]:
    """Open the books in this folder; new ones if there are none.

    Args:
        folder: whose books: one folder for one party.
        origin: name of the log, best a URL without its scheme.
    """
    folder.mkdir(parents=True, exist_ok=True)
    signer, key = _signing_key(folder / LOG_KEY, origin), _replay_key(folder / REPLAY_KEY)
    if signer.verifier.name != origin:
        raise InvalidInput(
            f"{folder}: these are the books of {signer.verifier.name!r}, not {origin!r}"
        )
    policy = Policy(origin, (signer.verifier,))
    if not (folder / POLICY).exists():
        replace_file(folder / POLICY, str(policy).encode())
    with open_storage(str(folder / DATABASE), PARTS) as storage:
        yield Books(folder, storage, Ledger(), _log(storage, origin), policy, key)


def _log(storage: Storage, origin: str) -> AuditLog:
    try:
        return storage.submit(AuditLog.open)
    except InvalidInput:  # none yet
        return storage.submit(lambda t: AuditLog.create(t, origin))


def _signing_key(path: Path, origin: str) -> SigningKey:
    if not path.exists():
        SigningKey.generate(origin).save(path)
    return SigningKey.load(path)


def _replay_key(path: Path) -> ReplayKey:
    if not path.exists():
        ReplayKey.generate().save(path)
    return ReplayKey.load(path)
