"""A node's side: Flower's fleet connection, in a long-lived process that runs no app.

A SuperNode of Flower fetches the app of a run and starts it for every message. This one asks for
the hash of a run's app, refuses any but `bundle.BUNDLE`, which holds no code, and answers with the
voile that is installed here. It never asks for an app's content.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol, cast

import httpx
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from flwr.app import Error, Message
from flwr.app.message import remove_content_from_message
from flwr.common.constant import ErrorCode
from flwr.common.serde import message_from_proto, message_to_proto
from flwr.proto.fleet_pb2 import (
    ActivateNodeRequest,
    DeactivateNodeRequest,
    PullMessagesRequest,
    PushMessagesRequest,
)
from flwr.proto.heartbeat_pb2 import SendNodeHeartbeatRequest
from flwr.proto.message_pb2 import ConfirmMessageReceivedRequest, ObjectTree
from flwr.proto.node_pb2 import Node
from flwr.proto.run_pb2 import GetRunRequest
from flwr.supercore.error import ApiErrorCode, FlowerError
from flwr.supercore.inflatable.inflatable_object import (
    get_all_nested_objects,
    get_object_tree,
    iterate_object_tree,
    no_object_id_recompute,
)
from flwr.supercore.inflatable.inflatable_protobuf_utils import (
    make_pull_object_fn_protobuf,
    make_push_object_fn_protobuf,
)
from flwr.supercore.inflatable.inflatable_utils import (
    ObjectPullError,
    ObjectPushError,
    inflate_object_from_contents,
    pull_objects,
    push_objects,
)
from flwr.supercore.primitives.asymmetric import public_key_to_bytes
from flwr.supernode.fleet_http_client import FleetHttpClient
from flwr.supernode.node_auth_http_interceptor import NodeAuthHttpInterceptor

from voile.core.atomic_file import create_key_file
from voile.core.errors import InvalidInput, VoileError
from voile.core.input_file import read_private
from voile.federation.flower.courier import packed, unpacked
from voile.federation.flower.superlink import BUNDLE_HASH, SuperLinkPlace, beating
from voile.federation.responder import Event, NodeLog

# --- The key that a SuperLink knows a node by: Flower's node authentication ----------------------
# It opens the connection and nothing else; what a node says is signed with the key of its log.


def node_key(path: Path) -> ec.EllipticCurvePrivateKey:
    """The key in this file, which is made if there is none: P-384, in OpenSSH's form."""
    if not path.exists():
        made = ec.generate_private_key(ec.SECP384R1())
        content = made.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.OpenSSH,
            serialization.NoEncryption(),
        )
        create_key_file(path, content)
    try:
        key = serialization.load_ssh_private_key(read_private(path), None)
    except ValueError as error:
        raise InvalidInput(f"{path}: expected a private key in OpenSSH's form") from error
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise InvalidInput(f"{path}: Flower knows nodes by a key on a NIST curve, such as P-384")
    return key


def public_bytes(key: ec.EllipticCurvePrivateKey) -> bytes:
    """As a SuperLink registers it."""
    return public_key_to_bytes(key.public_key())


def public_line(key: ec.EllipticCurvePrivateKey) -> str:
    """For the file that `flwr supernode register` reads."""
    form = serialization.PublicFormat.OpenSSH
    return key.public_key().public_bytes(serialization.Encoding.OpenSSH, form).decode() + "\n"


# --------------------------------------------------------------------------------------------------


HEARTBEAT: Final = 10
"""Seconds, the least that Flower takes: who has not been heard of for twice as long is gone."""
_ON_THE_WAY: Final = (502, 503, 504)
"""What gateways say while a SuperLink is gone for a while."""

NODE_PATHS: Final = tuple(
    f"/v1/fleet/{call}"
    for call in (
        "activate-node",
        "deactivate-node",
        "send-node-heartbeat",
        "get-run",
        "pull-messages",
        "pull-object",
        "confirm-message-received",
        "push-messages",
        "push-object",
    )
)
"""All that a node asks a SuperLink for. None of it registers a key; none of it fetches an app."""


class Answers(Protocol):
    """Whoever answers sealed bytes with sealed bytes: `voile.federation.responder.Responder`."""

    @property
    def log(self) -> NodeLog: ...

    def answer(self, request: bytes) -> bytes: ...


@dataclass(frozen=True)
class Pace:
    """Seconds between two looks for messages: short after one has come in, longer while idle."""

    shortest: float = 0.1
    longest: float = 3.0

    def next(self, pause: float) -> float:
        return min(self.longest, 1.5 * pause)


@dataclass(eq=False)
class FleetConnection:
    """One activation of a node at a SuperLink.

    Args:
        client: Flower's own, with the node's key.
        node: as the SuperLink numbers it.
    """

    client: FleetHttpClient
    node: Node
    _checked: dict[int, bool] = field(default_factory=dict, init=False, repr=False)
    _unsent: Message | None = field(default=None, init=False, repr=False)

    @classmethod
    @contextmanager
    def open(
        cls,
        place: SuperLinkPlace,
        key: ec.EllipticCurvePrivateKey,
        contact: Callable[[], None] = lambda: None,
    ) -> Iterator[FleetConnection]:
        """`contact` is called whenever the SuperLink has answered a sign of life."""
        auth = NodeAuthHttpInterceptor(key, key.public_key())
        with place.client(FleetHttpClient, [auth]) as client:
            activate = ActivateNodeRequest(
                public_key=public_bytes(key), heartbeat_interval=HEARTBEAT
            )
            node = Node(node_id=client.ActivateNode(activate).node_id)
            contact()

            def beat() -> None:
                client.SendNodeHeartbeat(
                    SendNodeHeartbeatRequest(node=node, heartbeat_interval=HEARTBEAT)
                )
                contact()

            try:
                with beating(beat, HEARTBEAT / 2):
                    yield cls(client, node)
            finally:
                with suppress(Exception):  # it is gone already, or was none
                    client.DeactivateNode(DeactivateNodeRequest(node_id=node.node_id))

    def step(self, answers: Answers) -> bool:
        """Take a message and answer it; False if there is none.

        A reply that could not be sent is kept, and sent first the next time: the message that it
        answers is not brought a second time.
        """
        if self._unsent is None:
            pulled = self.client.PullMessages(PullMessagesRequest(node=self.node))
            if not pulled.messages_list:
                return False
            message = message_from_proto(pulled.messages_list[0])
            try:
                self._unsent = self._reply(message, pulled.message_object_trees[0], answers)
            except httpx.HTTPStatusError:
                # Its server was killed while it sent it; the next one may have sent others.
                answers.log.write(Event.FAILED, "a message whose run is over; it was not read")
                return True
        try:
            self._push(self._unsent)
        except (httpx.HTTPStatusError, ObjectPushError) as error:
            if _may_pass(error):
                raise
            answers.log.write(Event.FAILED, "nobody waits for a reply any more; it was not sent")
        self._unsent = None
        return True

    def _reply(self, message: Message, tree: ObjectTree, answers: Answers) -> Message:
        run = message.metadata.run_id
        if not self._is_ours(run):
            answers.log.write(
                Event.REFUSED,
                "a run of another app than voile's, which was not fetched: no code of a server "
                "runs here",
            )
            error = Error(ErrorCode.INVALID_FAB, "this node runs no app; it answers voile's runs")
            return Message(error, reply_to=message)
        request = self._pulled(message, tree)
        if request is None:
            answers.log.write(Event.REFUSED, "a message that is none of voile's")
            return Message(
                Error(ErrorCode.UNKNOWN, "this is no message of voile"), reply_to=message
            )
        return Message(packed(answers.answer(request)), reply_to=message)

    def _is_ours(self, run: int) -> bool:
        if run not in self._checked:
            found = self.client.GetRun(GetRunRequest(node=self.node, run_id=run)).run
            self._checked[run] = found.fab_hash == BUNDLE_HASH
        return self._checked[run]

    def _pulled(self, message: Message, tree: ObjectTree) -> bytes | None:
        run, name = message.metadata.run_id, message.metadata.message_id
        contents = pull_objects(
            [each.object_id for each in iterate_object_tree(tree)],
            make_pull_object_fn_protobuf(self.client.PullObject, self.node, run),
        )
        self.client.ConfirmMessageReceived(
            ConfirmMessageReceivedRequest(node=self.node, run_id=run, message_object_id=name)
        )
        try:
            whole = inflate_object_from_contents(name, contents)
        except Exception:  # whatever a server may have put there instead of a message
            return None
        is_message = isinstance(whole, Message) and whole.has_content()
        return unpacked(cast(Message, whole).content) if is_message else None

    def _push(self, reply: Message) -> None:
        """Flower could be told how long it took; that depends on the rows, and is not sent."""
        with no_object_id_recompute():
            reply.metadata.__dict__["_message_id"] = reply.object_id
            answer = self.client.PushMessages(
                PushMessagesRequest(
                    node=self.node,
                    messages_list=[message_to_proto(remove_content_from_message(reply))],
                    message_object_trees=[get_object_tree(reply)],
                )
            )
            run = reply.metadata.run_id
            push_objects(
                get_all_nested_objects(reply),
                make_push_object_fn_protobuf(
                    self.client.PushObject, self.node, run, answer.session_id
                ),
                object_ids_to_push=set(answer.objects_to_push),
            )


def serve(
    answers: Answers,
    place: SuperLinkPlace,
    key: ec.EllipticCurvePrivateKey,
    stop: threading.Event,
    pace: Pace | None = None,
) -> None:
    """Answer messages until `stop` is set, over as many connections as it takes."""
    pace = pace or Pace()
    while not stop.is_set():
        try:
            with FleetConnection.open(place, key, answers.log.touch) as connection:
                _serve_over(connection, answers, place.address, stop, pace)
        except VoileError:  # of this side, such as certificates that cannot be read
            raise
        except Exception as error:  # whatever a SuperLink, or somebody in its place, may say
            answers.log.write(Event.OFFLINE, f"{place.address}: {_told(error)}; trying again")
            stop.wait(pace.longest)
    answers.log.write(Event.STOPPED, "as its operator asked")


def _serve_over(
    connection: FleetConnection, answers: Answers, address: str, stop: threading.Event, pace: Pace
) -> None:
    """Over one activation, which outlasts a SuperLink that is gone for a while."""
    answers.log.write(Event.STARTED, f"connected to {address}")
    pause, offline = pace.shortest, False
    while not stop.is_set():
        try:
            pause = pace.shortest if connection.step(answers) else pace.next(pause)
            if offline:
                answers.log.write(Event.STARTED, f"connected to {address} again")
            offline = False
        except Exception as error:
            if not _may_pass(error):
                raise
            if not offline:
                answers.log.write(Event.OFFLINE, f"{address}: {_told(error)}; trying again")
            pause, offline = pace.longest, True
        stop.wait(pause)


def _may_pass(error: Exception) -> bool:
    """Whether the way to the SuperLink is broken, which may be whole again.

    What Flower cannot read (`ValueError`) is of somebody on the way, such as a page that asks for a
    password.
    """
    if isinstance(error, httpx.HTTPStatusError):
        return error.response.status_code in _ON_THE_WAY
    return isinstance(error, (httpx.TransportError, ObjectPullError, ValueError))


def _told(error: Exception) -> str:
    if isinstance(error, httpx.HTTPStatusError):
        found = FlowerError.from_json(error.response.text)
        if found is not None and found.code == ApiErrorCode.FLEET_NODE_ACTIVATION_FAILED:
            return (
                "the SuperLink does not know this node's key: its operator must register it "
                "(`flwr supernode register`)"
            )
        return f"{error.response.status_code} {'' if found is None else found.message}"
    return str(error) or type(error).__name__
