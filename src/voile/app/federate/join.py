"""One party on a machine of its own, from the command to the result."""

from __future__ import annotations

from dataclasses import dataclass

from voile.app.calls import Context
from voile.app.commands.node import JoinFederation, MakeNodeKeys, ShowNodeStatus
from voile.app.federate.enrolling import Enrolment, enrol
from voile.app.federate.files import read_node
from voile.app.federate.node_files import NodeStatus, node_status
from voile.core.one_thread import one_thread


@dataclass(frozen=True)
class NodeEnded:
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


def join(command: JoinFederation, context: Context) -> NodeEnded:
    """Answer the server of the agreement until `context.stop` is set, or Ctrl-C."""
    from voile.app.federate.deployed import DeployedNode

    node = DeployedNode.read(command.config)
    context.say(f"agreement {node.agreement.digest}")
    with one_thread():
        try:
            node.serve(context.stop, context.say)
        except KeyboardInterrupt:
            context.stop.set()
    return NodeEnded(node.party.name, node.agreement.digest)


def show_status(command: ShowNodeStatus, _context: Context) -> NodeStatus:
    """What a node was asked, has spent and has refused."""
    agreement, party, _ = read_node(command.config)
    return node_status(party, agreement)


def make_keys(command: MakeNodeKeys, _context: Context) -> NodeKeys:
    """The keys of a node, made if there are none."""
    from voile.federation.flower.keys import node_key, public_line

    found = enrol(command.config)
    return NodeKeys(found, public_line(node_key(found.flower_key)).strip())
