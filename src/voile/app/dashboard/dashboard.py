"""A served workspace, with what is remembered between two looks at it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import cached_property
from typing import Any, Final, TypeVar

from voile.app.dashboard.record_index import CHUNK, RecordIndex
from voile.app.dashboard.sessions import PendingSignIns, Sessions
from voile.app.explain.per_record import parent_of_record
from voile.app.serving import Caller, ServedWorkspace
from voile.core.errors import VoileError
from voile.records.access import Duty
from voile.records.ledger import AccountShare, AccountShares
from voile.records.storage import Reader
from voile.records.vault import Vault

Found = TypeVar("Found")
_MOST_KNOWN: Final = 1000
_PAUSE: Final = 0.02
"""Seconds between two chunks, so that whoever is charged meanwhile does not wait."""


class Dashboard:
    """What the pages are made from.

    Args:
        workspace: stays open while this is used.
    """

    def __init__(self, workspace: ServedWorkspace) -> None:
        self.workspace = workspace
        self._lock, self._stopped = threading.Lock(), threading.Event()
        self._shares = AccountShares(parent_of_record)
        self._known: dict[tuple[str, ...], Any] = {}

    @property
    def vault(self) -> Vault:
        """What is kept."""
        return self.workspace.vault

    @cached_property
    def sessions(self) -> Sessions:
        """Who is signed in."""
        return Sessions(self.vault, self.workspace.settings.issuers)

    @cached_property
    def pending(self) -> PendingSignIns:
        """Who was sent to an issuer."""
        return PendingSignIns(self.vault)

    @cached_property
    def index(self) -> RecordIndex:
        """Which records there are."""
        return RecordIndex(self.vault)

    def start(self) -> None:
        """Read the log in the background; pages say how far that is."""
        threading.Thread(target=self.read_log, name="voile dashboard", daemon=True).start()

    def stop(self) -> None:
        """Read no further."""
        self._stopped.set()

    def read_log(self, pause: float = _PAUSE) -> None:
        """Read all there is, in turns with others."""
        try:
            while not self._stopped.is_set() and not self.index.follow(most=CHUNK):
                time.sleep(pause)
        except VoileError:
            return  # the database is gone, or was closed; a page will say so

    def remembered(self, key: tuple[str, ...], find: Callable[[], Found]) -> Found:
        """What follows from a release alone, found once."""
        if key not in self._known:
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            self._known[key] = find()
        found: Found = self._known[key]
        return found

    def shares(self, t: Reader) -> list[AccountShare]:
        """All accounts that are listed, with what is used of them."""
        with self._lock:
            return self._shares.look(t)

    def seen_by(self, caller: Caller, shares: list[AccountShare]) -> list[AccountShare]:
        """Auditors see all budgets, others those of their accounts."""
        return [line for line in shares if sees(caller, line.account.name)]


def sees(caller: Caller, account: str) -> bool:
    """Whether somebody may look at a budget."""
    return Duty.AUDIT in caller.grants.duties or caller.grants.covers(account)
