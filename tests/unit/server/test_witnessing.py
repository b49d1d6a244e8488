"""A witness over HTTP by itself, as `voile audit witness` runs it."""

from __future__ import annotations

import http.client
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from tests.unit.records.audit_log.examples import LOG_KEY, ORIGIN, WITNESS_KEYS, SmallLog, release
from tests.unit.server.witnesses import witness_at

from voile.app.calls import handle
from voile.app.commands.audit import ServeWitness
from voile.core.errors import MissingDependency, StorageFault
from voile.records.audit_log import Witness
from voile.records.audit_log.witness import LARGEST_REQUEST, PART, AddCheckpointRequest
from voile.records.storage import open_storage

PLACE = "/add-checkpoint"


@pytest.fixture(scope="module")
def small() -> SmallLog:
    return SmallLog.of([release(n) for n in range(9)])


@pytest.fixture
def witness() -> Iterator[Witness]:
    with open_storage("memory:", [PART]) as storage:
        yield Witness(storage, WITNESS_KEYS[0], {ORIGIN: (LOG_KEY.verifier,)})


@pytest.fixture
def connection(witness: Witness) -> Iterator[http.client.HTTPConnection]:
    with witness_at(witness) as url:
        parts = urlsplit(url)
        assert parts.hostname is not None
        found = http.client.HTTPConnection(parts.hostname, parts.port, timeout=60)
        yield found
        found.close()


def asking(log: SmallLog, old: int, new: int) -> bytes:
    proof = log.storage.submit(lambda t: log.log.consistency_proof(t, old, new))
    return bytes(AddCheckpointRequest(old, proof, bytes(log.note(new, cosigners=()))))


def ask(
    connection: http.client.HTTPConnection, method: str, path: str, body: object = None
) -> tuple[int, bytes, http.client.HTTPMessage]:
    connection.request(method, path, body)  # type: ignore[arg-type]
    reply = connection.getresponse()
    return reply.status, reply.read(), reply.headers


def test_statuses_types_and_bodies_over_one_kept_connection(
    connection: http.client.HTTPConnection, small: SmallLog
) -> None:
    status, content, headers = ask(connection, "POST", PLACE, asking(small, 0, 7))
    assert status == 200
    assert content.startswith("— witness0.example ".encode())
    assert headers["Content-Type"] == "text/plain; charset=utf-8"
    kept = connection.sock
    status, content, headers = ask(connection, "POST", PLACE, asking(small, 0, 7))
    assert (status, content, headers["Content-Type"]) == (409, b"7\n", "text/x.tlog.size")
    assert ask(connection, "POST", PLACE, asking(small, 7, 9))[0] == 200
    assert ask(connection, "POST", PLACE, b"nonsense")[0] == 400
    assert ask(connection, "POST", PLACE)[0] == 400
    assert ask(connection, "POST", "/elsewhere")[0] == 404
    assert connection.sock is kept


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "HEAD", "OPTIONS"])
def test_there_is_one_method(connection: http.client.HTTPConnection, method: str) -> None:
    status, _, headers = ask(connection, method, PLACE)
    assert (status, headers["Allow"]) == (405, "POST")


def test_answers_have_the_headers_of_the_service(connection: http.client.HTTPConnection) -> None:
    for path in (PLACE, "/elsewhere"):
        headers = ask(connection, "POST", path, b"x")[2]
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cache-control"] == "no-store"
        assert headers["server"] is None


@pytest.mark.parametrize("length", ["-1", "9" * 6000, "x", "1e3"])
def test_a_silly_length_is_a_bad_request(
    connection: http.client.HTTPConnection, length: str
) -> None:
    connection.putrequest("POST", PLACE)
    connection.putheader("Content-Length", length)
    connection.endheaders()
    assert connection.getresponse().status == 400


def test_a_body_has_a_limit_whether_it_is_declared_or_not(
    connection: http.client.HTTPConnection,
) -> None:
    """Declared, it is not waited for."""
    connection.putrequest("POST", PLACE)
    connection.putheader("Content-Length", str(LARGEST_REQUEST + 1))
    connection.endheaders()
    refused = connection.getresponse()
    assert (refused.status, refused.getheader("Connection")) == (413, "close")
    connection.close()
    parts = iter([b"x" * LARGEST_REQUEST, b"x"])
    connection.request("POST", PLACE, parts, encode_chunked=True)
    assert connection.getresponse().status == 413


def test_nothing_is_cosigned_that_was_not_stored(
    connection: http.client.HTTPConnection, witness: Witness, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: bytes) -> None:
        raise StorageFault("the disk is full")

    monkeypatch.setattr(witness, "add_checkpoint", full)
    assert ask(connection, "POST", PLACE, b"x")[0] == 503


def test_a_package_that_is_missing_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before a key is made."""

    def missing(name: str) -> None:
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    monkeypatch.setattr("voile.core.optional.import_module", missing)
    key, rules = tmp_path / "w.key", (tmp_path / "log.toml",)
    command = ServeWitness(database="w.db", policies=rules, key=key, name="w")
    with pytest.raises(MissingDependency, match=r"voile\[serve\]"):
        handle(command)
    assert not list(tmp_path.iterdir())
