"""One party on a machine of its own, from the command to the result."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np

from voile.app.calls import Context
from voile.app.commands.federate import JoinFederation, MakeNodeKeys, ShowNodeStatus
from voile.app.federate.agreement import SERVER, FederationAgreement, origin_of
from voile.app.federate.base import ServerSide
from voile.app.federate.config import (
    FederationFile,
    NodeFile,
    NodeLinkSection,
    ServerFile,
    ServerLinkSection,
)
from voile.app.federate.files import SERVER_FILE, read_beside, read_node, read_server
from voile.app.federate.party import (
    Party,
    Say,
    check_name,
    is_held,
    open_node,
    party_key,
    signer_of,
)
from voile.app.federate.run import FederationRun, announce, run_server
from voile.app.federate.status import RunWatch
from voile.app.toml_file import TomlFile
from voile.core.errors import InvalidInput, Refused
from voile.core.input_file import damaged, read_private
from voile.core.one_thread import one_thread
from voile.core.toml_text import quoted
from voile.datasets.tables import check_cells_separate, read_protected_table
from voile.federation import Progress
from voile.federation.flower import (
    AnswerTimes,
    FlowerTransport,
    SuperLinkPlace,
    SuperLinkRun,
    node_key,
    serve,
)
from voile.federation.progress import NoProgress
from voile.federation.responder import (
    LAST_CONTACT,
    TIME,
    NodeLine,
    NodeLog,
    NodeSeal,
    Responder,
    SignedByServer,
    TakenNumbers,
)
from voile.records.audit_log.notes import VerifierKey
from voile.records.ledger import Ledger, remaining
from voile.records.storage import Reader
from voile.records.vault import Place, open_vault_at
from voile.training import Progress as Steps

# --------------------------------------------------------------------------------------------------
# What a node on a machine of its own leaves beside its books, and what its operator is shown.


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


# --- The same federation with every party on a machine of its own, over a Flower SuperLink -------
# A party's node is a long-lived process that answers with its own rows, books, keys and voile; the
# server is another one. What they say is signed on both sides with the keys of the agreement, so
# neither believes the SuperLink between them.


PATIENCE: Final = 300.0
"""Seconds that a server waits for parties that are not there, and for its SuperLink."""


@dataclass(frozen=True, eq=False)
class DeployedNode:
    """A party, what it has agreed to, and how it reaches the SuperLink."""

    agreement: FederationAgreement
    party: Party
    link: NodeLinkSection

    @classmethod
    def read(cls, path: Path) -> DeployedNode:
        return cls(*read_node(path))

    @contextmanager
    def responder(self, show: Say = lambda _: None) -> Iterator[Responder]:
        """Answers what the server of the agreement has signed for this party, once."""
        party, agreement = self.party, self.agreement
        with open_node(party, agreement, show) as node:
            seal = NodeSeal(
                party.name,
                agreement.digest,
                server_key(agreement).public,
                signer_of(party.folder, agreement.keys[party.name]),
                TakenNumbers(party.folder / LAST_MESSAGE),
            )
            yield Responder(node, seal, NodeLog(party.folder / NODE_LOG, show))

    def serve(self, stop: threading.Event, show: Say = lambda _: None) -> None:
        """Until `stop` is set."""
        place = SuperLinkPlace(self.link.address, self.link.root_certificates)
        key = node_key(self.link.key)
        with self.responder(show) as responder:
            serve(responder, place, key, stop)


@dataclass(frozen=True, eq=False)
class DeployedServer:
    """The server's side of a federation whose parties are elsewhere."""

    agreement: FederationAgreement
    server: ServerSide
    link: ServerLinkSection

    @classmethod
    def read(cls, path: Path) -> DeployedServer:
        return cls(*read_server(path))

    def federate(
        self,
        address: str,
        *,
        rounds_seen: Progress | None = None,
        steps_seen: Steps | None = None,
        say: Say = lambda _: None,
    ) -> FederationRun:
        """Run it over the SuperLink at this address; see `run_server`."""
        agreement, server = self.agreement, self.server
        announce(agreement, server, say)
        sign = signer_of(server.folder, server_key(agreement))
        keys = {name: key.public for name, key in agreement.keys.items()}
        sent = TakenNumbers(server.folder / LAST_MESSAGE)
        seal = SignedByServer(agreement.digest, sign, keys, sent=sent)
        place = SuperLinkPlace(address, self.link.root_certificates)
        with SuperLinkRun(place, read_private(self.link.secret)) as run:
            watch = RunWatch(server.folder, rounds_seen or NoProgress())
            transport = FlowerTransport(run, seal, PATIENCE, say, AnswerTimes(), watch.waiting)
            return run_server(
                agreement, server, transport, deadline=self.link.deadline, steps_seen=steps_seen,
                say=say, watch=watch,
            )  # fmt: skip


def server_key(agreement: FederationAgreement) -> VerifierKey:
    """Across machines messages are signed, whatever is agreed on about sums."""
    if agreement.server_key is None:
        raise Refused(
            "across machines, the server signs its messages: add server_key to federation.toml "
            "(the key in the policy of the server's folder)"
        )
    return agreement.server_key


# --- How parties on machines of their own come to an agreement: each makes its keys where it is --
# A party hands over its lines of `federation.toml`, the server adds its own key, and everybody gets
# the same file. No private key leaves the machine that it was made on.


@dataclass(frozen=True)
class Enrolment:
    """What a party hands over before there is an agreement: all of it is public.

    Args:
        rows: how many records its file has.
        key: that its log, and what its node says, is signed with.
        flower_key: where the key lies that the SuperLink will know it by.
    """

    name: str
    rows: int
    key: str
    flower_key: Path

    @property
    def lines(self) -> str:
        """For `federation.toml`."""
        return (
            f"[[parties]]\nname = {quoted(self.name)}\nrows = {self.rows}\n"
            f"key = {quoted(self.key)}\n"
        )


def enrol(path: Path) -> Enrolment:
    """From a `node.toml`; the key of its log is made beside it, if there is none."""
    node = read_beside(path, NodeFile)
    if node.superlink is None:
        raise InvalidInput(f"{path}: needs [superlink] with address and root_certificates")
    if node.accepts.columns:
        check_cells_separate(node.table)  # a line break in a private cell would add to the count
    rows = _records_in(node.table)
    key = party_key(path.parent, origin_of(node.name, "node"))
    return Enrolment(node.name, rows, str(key), node.superlink.key)


def _records_in(path: Path) -> int:
    """Lines of a table, or images of a file of arrays; of a shop, whose records are users, state
    their number instead."""
    if path.suffix == ".npz":
        with damaged(path), np.load(path, allow_pickle=False) as arrays:
            return len(arrays["labels"])
    return len(next(iter(read_protected_table(path).values()), ()))


def server_key_line(path: Path) -> str:
    """The server's line for this `federation.toml`; its key is made in its folder."""
    agreed = TomlFile.read(path).checked(FederationFile)
    server = read_beside(path.parent / SERVER_FILE, ServerFile)
    check_name(agreed.name, server.output)
    key = party_key(server.output, origin_of(agreed.name, SERVER))
    return f"server_key = {quoted(str(key))}"


# --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class NodeResult:
    """A node that took part, until it was told to stop."""

    name: str
    agreement: str


@dataclass(frozen=True)
class NodeKeys:
    """What a party hands over before the start; all of it is public.

    Args:
        enrolment: for `federation.toml`.
        flower_key: the line that the SuperLink knows the node by.
    """

    enrolment: Enrolment
    flower_key: str


def join(command: JoinFederation, context: Context) -> NodeResult:
    """Answer the server of the agreement until `context.stop` is set, or Ctrl-C."""

    node = DeployedNode.read(command.config)
    context.say(f"agreement {node.agreement.digest}")
    with one_thread():
        try:
            node.serve(context.stop, context.say)
        except KeyboardInterrupt:
            context.stop.set()
    return NodeResult(node.party.name, node.agreement.digest)


def show_status(command: ShowNodeStatus, _context: Context) -> NodeStatus:
    """What a node was asked, has spent and has refused."""
    agreement, party, _ = read_node(command.config)
    return node_status(party, agreement)


def make_keys(command: MakeNodeKeys, _context: Context) -> NodeKeys:
    """The keys of a node, made if there are none."""
    from voile.federation.flower.fleet import node_key, public_line

    found = enrol(command.config)
    return NodeKeys(found, public_line(node_key(found.flower_key)).strip())
