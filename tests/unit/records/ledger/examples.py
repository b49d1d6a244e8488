"""What the tests of the ledger share: accounts, charges, a clock that can be set."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.protecting import joined
from tests.support.journal import check_journal

from voile.core.guarantee import ProtectedUnit, Relation
from voile.privacy.events import Gaussian, PrivacyEvent
from voile.records.ledger import PART, Charge, Children, Grant, Ledger, Opening, ReplayKey
from voile.records.storage import Storage, open_storage

DATASET = "clinic v1"
KEY = ReplayKey(bytes(range(32)))
CHEAP = Gaussian(20.0)


def opening(name: str = "clinic", **changes: Any) -> Opening:
    given: dict[str, Any] = {
        "name": name,
        "dataset": DATASET,
        "unit": ProtectedUnit.ROW,
        "relation": Relation.BLANK_ONE,
        "epsilon": 1.0,
        "delta": 1e-5,
    }
    return Opening(**joined(given | changes))


def charge(account: str = "clinic", event: PrivacyEvent = CHEAP, **changes: Any) -> Charge:
    given: dict[str, Any] = {
        "account": account,
        "event": event,
        "unit": ProtectedUnit.ROW,
        "relation": Relation.BLANK_ONE,
        "dataset": DATASET,
        "purpose": "global importance",
        "caller": "ada",
        "query": hashlib.sha256(account.encode()).digest(),
    }
    return Charge(**joined(given | changes))


class Clock:
    """Says what it was told, and a second more each time."""

    def __init__(self, start: float = 1_700_000_000.0) -> None:
        self.time = start

    def __call__(self) -> float:
        self.time += 1.0
        return self.time


@dataclass(frozen=True)
class Books:
    """A storage with a ledger in it."""

    storage: Storage
    ledger: Ledger
    clock: Clock

    @classmethod
    def memory(cls) -> Books:
        return cls.on(open_storage("memory:", [PART]))

    @classmethod
    def on(cls, storage: Storage) -> Books:
        clock = Clock()
        return cls(storage, Ledger(clock), clock)

    def open(self, name: str = "clinic", **changes: Any) -> None:
        asked = opening(name, **changes)
        self.storage.submit(lambda t: self.ledger.open(t, asked, caller="custodian"))

    def charge(self, account: str = "clinic", event: PrivacyEvent = CHEAP, **more: Any) -> Grant:
        request = charge(account, event, **more)
        return self.storage.submit(lambda t: self.ledger.charge(t, request))

    def renew(self, account: str, reason: str = "a new year") -> None:
        self.storage.submit(
            lambda t: self.ledger.renew(t, account, reason=reason, caller="custodian")
        )

    def ask(self, read: Callable[..., Any], *arguments: Any, **more: Any) -> Any:
        return self.storage.submit(lambda t: read(self.ledger, t, *arguments, **more))

    def spent(self, account: str) -> tuple[float, ...]:
        return self.storage.submit(lambda t: self.ledger.node(t, account)).standing.spent

    def problems(self) -> list[str]:
        return self.storage.submit(lambda t: check_journal(t, self.ledger.nodes(t)))


def clinic_tree(books: Books) -> None:
    """A root, two teams one after the other, and two wards with different patients."""
    books.open("clinic", epsilon=3.0)
    books.open("research", parent="clinic", epsilon=2.0)
    books.open("wards", parent="clinic", epsilon=2.0, children=Children.PARALLEL)
    books.open("north", parent="wards", epsilon=1.0)
    books.open("south", parent="wards", epsilon=1.5)
