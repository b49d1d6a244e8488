"""A node's side of Flower, and what may be said to it by others than a SuperLink."""

from __future__ import annotations

import inspect
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from flwr.proto.fleet_pb2 import ActivateNodeRequest
from flwr.proto.node_pb2 import Node
from flwr.supercore.control import ControlHttpClient
from flwr.supercore.error import FlowerError
from flwr.supercore.protobuf.client import ProtobufClient
from flwr.superlink.servicer.fleet.fleet_handlers import activate_node
from flwr.supernode.fleet_http_client import FleetHttpClient

from voile.app.certificates import make_certificates
from voile.core.errors import InvalidInput, Refused
from voile.federation.flower import fleet
from voile.federation.flower.fleet import (
    NODE_PATHS,
    FleetConnection,
    Pace,
    _serve_over,
    node_key,
    serve,
)
from voile.federation.flower.superlink import SuperLinkPlace, beating
from voile.federation.responder import Event, NodeLog

QUICK = Pace(0.01, 0.01)
SOON = 60.0


class Answering:
    """Nobody asks it anything here."""

    def __init__(self, folder: Path) -> None:
        self.log = NodeLog(folder / "log")

    def answer(self, request: bytes) -> bytes:
        raise NotImplementedError


def status(code: int, **said: Any) -> httpx.HTTPStatusError:
    request = httpx.Request("POST", "https://superlink.example")
    return httpx.HTTPStatusError("", request=request, response=httpx.Response(code, **said))


def test_a_node_outlives_whatever_is_said_instead_of_a_superlink(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as a page that asks for a password: Flower reads it as a message, and falls over it."""
    stop, said = threading.Event(), iter([ValueError("no message"), IndexError(), status(302)])

    @contextmanager
    def opened(*_: Any) -> Iterator[Any]:
        found = next(said, None)
        if found is None:
            stop.set()
            found = ValueError("the last one")
        raise found
        yield

    monkeypatch.setattr(FleetConnection, "open", opened)
    answers = Answering(tmp_path)
    place = SuperLinkPlace("superlink.example:1", tmp_path / "ca.crt")
    serve(answers, place, node_key(tmp_path / "key"), stop, QUICK)
    events = [line.event for line in answers.log.lines()]
    assert events == [Event.OFFLINE] * 4 + [Event.STOPPED]


def test_a_node_that_nobody_registered_is_told_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What Flower says is taken from its own handler: it changes from version to version."""
    nobody: Any = SimpleNamespace(get_node_id_by_public_key=lambda _: None)
    stop = threading.Event()
    with pytest.raises(FlowerError) as refused:
        activate_node(ActivateNodeRequest(public_key=b"key", heartbeat_interval=30), nobody)

    @contextmanager
    def opened(*_: Any) -> Iterator[Any]:
        stop.set()
        raise status(412, json=refused.value.to_json("SuperNode activation failed."))
        yield

    monkeypatch.setattr(FleetConnection, "open", opened)
    answers, place = Answering(tmp_path), SuperLinkPlace("superlink.example:1", tmp_path)
    serve(answers, place, node_key(tmp_path / "key"), stop, QUICK)
    offline, _ = answers.log.lines()
    assert "does not know this node's key: its operator must register it" in offline.text


def test_every_answer_to_a_sign_of_life_is_a_contact(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fleet, "HEARTBEAT", 0.02)
    told, both = list[str](), threading.Event()

    def contact() -> None:
        told.append("contact")
        if len(told) == 2:
            both.set()

    client = SimpleNamespace(
        ActivateNode=lambda _: SimpleNamespace(node_id=7),
        SendNodeHeartbeat=lambda _: None,
        DeactivateNode=lambda _: None,
    )

    class Place:
        @contextmanager
        def client(self, *_: Any) -> Iterator[Any]:
            yield client

    place: Any = Place()
    with FleetConnection.open(place, node_key(tmp_path / "key"), contact):
        assert told  # the first one by the time it is open
        assert both.wait(SOON)


def test_what_is_wrong_on_this_side_is_an_error(tmp_path: Path) -> None:
    place = SuperLinkPlace("superlink.example:1", tmp_path / "ca.crt")
    place.root_certificates.write_text("no certificate")
    with pytest.raises(InvalidInput, match="certificates"):
        serve(Answering(tmp_path), place, node_key(tmp_path / "key"), threading.Event(), QUICK)


def test_a_heart_beats_on_whatever_is_said_to_it() -> None:
    again, beats = threading.Event(), [0]

    def beat() -> None:
        beats[0] += 1
        if beats[0] > 1:
            again.set()
        raise ValueError("no message")

    with beating(beat, 0.01):
        assert again.wait(SOON)


@pytest.mark.parametrize(
    ("error", "kept"),
    [(status(502), True), (status(503), True), (ValueError("a page"), True), (status(404), False)],
)
def test_a_reply_is_kept_until_the_way_is_whole_again(
    error: Exception, kept: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    client: Any = None
    reply: Any = object()
    connection, pushed, answers = FleetConnection(client, client), [error], Answering(tmp_path)
    connection._unsent = reply

    def push(*_: Any) -> None:
        if pushed:
            raise pushed.pop()

    monkeypatch.setattr(connection, "_push", push)
    stop = threading.Event()
    monkeypatch.setattr(stop, "wait", lambda _: stop.set())
    _serve_over(connection, answers, "superlink.example:1", stop, QUICK)
    assert (connection._unsent is not None) == kept
    assert [line.event for line in answers.log.lines()][1:] == (
        [Event.OFFLINE] if kept else [Event.FAILED]
    )


def test_a_message_whose_run_is_over_is_let_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its server was killed while it sent it. Leaving would lose what the next one has sent."""
    pulled = SimpleNamespace(messages_list=[None], message_object_trees=[None])
    client: Any = SimpleNamespace(PullMessages=lambda _: pulled)

    def over(*_: Any) -> None:
        raise status(403)

    connection, answers = FleetConnection(client, Node()), Answering(tmp_path)
    monkeypatch.setattr(fleet, "message_from_proto", lambda _: None)
    monkeypatch.setattr(connection, "_reply", over)
    assert connection.step(answers)
    assert connection._unsent is None
    assert [line.event for line in answers.log.lines()] == [Event.FAILED]


def test_nobody_is_followed_elsewhere(tmp_path: Path) -> None:
    """Elsewhere may be without TLS."""
    place = SuperLinkPlace("superlink.example:1", make_certificates(tmp_path).authority)
    with place.client(FleetHttpClient, []) as client:
        assert not client._client.follow_redirects


def test_a_key_that_others_can_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "key"
    node_key(path)
    path.chmod(0o640)
    with pytest.raises(Refused, match="0640"):
        node_key(path)


class Asked(Exception):
    """Which path a client of Flower would have asked for."""


def path_of(kind: type[ProtobufClient], call: str) -> str:
    class Stopped(kind):  # type: ignore[misc,valid-type]
        def _unary_unary(self, *, path: str, **_: Any) -> Any:
            raise Asked(path)

    with pytest.raises(Asked) as asked:
        getattr(Stopped("https://superlink.example"), call)(None)
    return str(asked.value)


def test_a_node_asks_for_these_paths_and_no_other() -> None:
    """A proxy lets them through and nothing else: Flower must not have renamed any of them."""
    calls = set(re.findall(r"client\.([A-Z]\w+)", inspect.getsource(fleet)))
    assert {path_of(FleetHttpClient, call) for call in calls} == set(NODE_PATHS)
    assert len(NODE_PATHS) == len(calls)


def test_no_path_of_a_node_registers_a_key() -> None:
    for kind in (FleetHttpClient, ControlHttpClient):
        for call in ("RegisterNode", "UnregisterNode"):
            assert path_of(kind, call) not in NODE_PATHS
