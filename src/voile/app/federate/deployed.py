"""The same federation with every party on a machine of its own, over a Flower SuperLink.

A party's node is a long-lived process that answers with its own rows, books, keys and voile; the
server is another one. What they say is signed on both sides with the keys of the agreement, so
neither believes the SuperLink between them.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from voile.app.federate.agreement import FederationAgreement
from voile.app.federate.config import NodeLinkSection, ServerLinkSection
from voile.app.federate.files import read_node, read_server
from voile.app.federate.job import ServerSide
from voile.app.federate.node_files import LAST_MESSAGE, NODE_LOG
from voile.app.federate.party import Party, Say, open_node, signer_of
from voile.app.federate.run import Federated, announce, run_server
from voile.app.federate.status import RunWatch
from voile.core.errors import Refused
from voile.core.input_file import read_private
from voile.federation import Progress
from voile.federation.envelopes import NodeSeal, SignedByServer, TakenNumbers
from voile.federation.flower import (
    AnswerTimes,
    FlowerTransport,
    SuperLinkPlace,
    SuperLinkRun,
    node_key,
    serve,
)
from voile.federation.progress import NoProgress
from voile.federation.responder import NodeLog, Responder
from voile.records.audit_log.notes import VerifierKey
from voile.training import Progress as Steps

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
    ) -> Federated:
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
            "across machines the server signs what it says: server_key is missing in "
            "federation.toml (the key in the policy of the server's folder)"
        )
    return agreement.server_key
