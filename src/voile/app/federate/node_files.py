"""What a node on a machine of its own leaves beside its books, and what its operator is shown."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Final

from voile.app.federate.agreement import FederationAgreement
from voile.app.federate.party import Party, is_held
from voile.federation.responder import LAST_CONTACT, TIME, NodeLine, NodeLog
from voile.records.ledger import Ledger, remaining
from voile.records.storage import Reader
from voile.records.vault import Place, open_vault_at

NODE_LOG: Final = "node.log"
LAST_MESSAGE: Final = "last-message"
_SHOWN: Final = 10


@dataclass(frozen=True)
class SpentAccount:
    """One promise of a party's ledger, and which share of it is spent."""

    name: str
    epsilon: float
    delta: float
    spent: float


@dataclass(frozen=True)
class NodeStatus:
    """What a node is asked, what it has spent and what it refuses.

    Args:
        running: whether a node, or another run, uses its folder now.
        counts: lines of its log, by what they are about.
        last: the latest of them.
        last_contact: when the SuperLink last answered; None: never.
        last_round: the latest line about a round; None if there was none.
    """

    name: str
    agreement: str
    running: bool
    accounts: tuple[SpentAccount, ...]
    counts: dict[str, int]
    last: tuple[NodeLine, ...]
    last_contact: str | None = None
    last_round: NodeLine | None = None

    def to_dict(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "agreement": self.agreement,
            "running": self.running,
            "accounts": [vars(each) for each in self.accounts],
            "log": self.counts,
            "last": [str(line) for line in self.last],
            "last_contact": self.last_contact,
            "last_round": None if self.last_round is None else asdict(self.last_round),
        }

    @property
    def lines(self) -> list[str]:
        """For people."""
        spent = [
            f"{each.name}: {each.spent:.0%} of (ε = {each.epsilon:g}, δ = {each.delta:g}) spent"
            for each in self.accounts
        ]
        seen = ", ".join(f"{count} {event}" for event, count in self.counts.items())
        return [
            f"{self.name}: {'running' if self.running else 'not running'}",
            f"agreement {self.agreement}",
            f"last contact with the SuperLink: {self.last_contact or 'never'}",
            f"last round: {self.last_round or 'none was asked for'}",
            *(spent or ["nothing was charged yet"]),
            seen or "nothing was asked yet",
            *map(str, self.last),
        ]


def node_status(party: Party, agreement: FederationAgreement) -> NodeStatus:
    """From its books and its log, also while it runs; looking makes neither books nor keys."""
    with open_vault_at(Place.within(party.folder), signing=None) as vault:
        accounts = vault.storage.read_snapshot(partial(_accounts, vault.ledger))
    lines = NodeLog(party.folder / NODE_LOG).lines()
    counts = dict(sorted(Counter(str(line.event) for line in lines).items()))
    running = is_held(party.folder)
    return NodeStatus(
        party.name, agreement.digest, running, accounts, counts, tuple(lines[-_SHOWN:]),
        _last_contact(party.folder / LAST_CONTACT),
        next((line for line in reversed(lines) if line.round is not None), None),
    )  # fmt: skip


def _accounts(ledger: Ledger, t: Reader) -> tuple[SpentAccount, ...]:
    roots = [node.account for node in ledger.nodes(t) if node.account.parent is None]
    return tuple(
        SpentAccount(each.name, each.epsilon, each.delta, 1 - remaining(ledger, t, each.name).share)
        for each in roots
    )


def _last_contact(path: Path) -> str | None:
    """When the SuperLink last answered: the time of an empty file (`NodeLog.touch`)."""
    try:
        changed = path.stat().st_mtime
    except OSError:
        return None
    return f"{datetime.fromtimestamp(changed, UTC):{TIME}}"
