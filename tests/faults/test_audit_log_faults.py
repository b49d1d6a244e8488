"""Kill -9 while appending and witnessing; witnesses that are down, slow, confused or hostile."""

from __future__ import annotations

import http.client
import json
import os
import random
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.faults.forking import child, kill, lines
from tests.unit.records.audit_log.examples import (
    LOG_KEY,
    NONCES,
    ORIGIN,
    QUERY,
    WITNESS_KEYS,
    SmallLog,
    policy,
    release,
)
from tests.unit.server.witnesses import witness_at
from voile.app.server_door import ServerAddress
from voile.core.errors import InvalidInput
from voile.records.audit_log import (
    PART,
    AuditLog,
    PinnedCheckpoint,
    RemoteWitness,
    SigningKey,
    Witness,
    canonical_bytes,
    issue_receipt,
    publish,
    verify_export,
    verify_receipt,
)
from voile.records.audit_log.notes import Note
from voile.records.audit_log.publishing import (
    PublishedCheckpoints,
    all_records,
    check_stored,
    latest_checkpoint,
    reissue,
)
from voile.records.audit_log.witness import PART as WITNESS_PART
from voile.records.audit_log.witness import AddCheckpointRequest
from voile.records.audit_log.witness_client import AskOutcome, ContradictedCheckpoint
from voile.records.storage import Storage, open_storage
from voile.server import edge
from voile.server import running as server_running

PLACES = ["sqlite", pytest.param("postgres", marks=pytest.mark.real)]
LOGS = {ORIGIN: (LOG_KEY.verifier,)}


@pytest.fixture(params=PLACES)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return str(tmp_path / "test.db")
    url: str = request.getfixturevalue("postgres_url")
    return url


# --- kill -9 -------------------------------------------------------------------------------------


def append_for_ever(place: str, first: int) -> Callable[[int], None]:
    def work(pipe: int) -> None:
        storage = open_storage(place, [PART])
        log = storage.submit(AuditLog.open)
        number = first
        while True:
            record = release(number)
            done = storage.submit(lambda t, r=record: log.append(t, r))  # type: ignore[misc]
            os.write(pipe, b"%d %d\n" % (number, done.number))
            number += 1

    return work


def test_kill_at_random_points_the_log_opens_verifies_and_holds_what_was_answered(
    place: str,
) -> None:
    rounds = 50 if place.startswith("/") else 15
    chance = random.Random(11)
    with open_storage(place, [PART]) as storage:
        storage.submit(lambda t: AuditLog.create(t, ORIGIN))
    answered: dict[int, bytes] = {}
    for number in range(rounds):
        with child(append_for_ever(place, 10_000 * number)) as (process, pipe):
            select.select([pipe], [], [], 10)  # it is at work
            time.sleep(chance.uniform(0, 0.01))
            kill(process)
            for line in lines(pipe):
                record, index = map(int, line.split())
                answered[index] = canonical_bytes(release(record))
        with open_storage(place, [PART]) as storage:
            log = storage.submit(AuditLog.open)
            head = check_stored(storage, log)
            records = list(all_records(storage, log, head.size))
        assert all(records[index] == record for index, record in answered.items())
        # At most the append under way was kept without an answer, once for each kill.
        assert len(answered) <= head.size <= len(answered) + number + 1
    assert len(answered) > rounds
    with open_storage(place, [PART]) as storage:
        published = publish(storage, log, policy(0), [LOG_KEY])
        assert verify_export(records, bytes(published.note), policy(0)).verified


def test_two_processes_append_to_one_log(place: str) -> None:
    with open_storage(place, [PART]) as storage:
        storage.submit(lambda t: AuditLog.create(t, ORIGIN))

    def append_some(pipe: int) -> None:
        with open_storage(place, [PART]) as storage:
            log = storage.submit(AuditLog.open)
            for number in range(40):
                record = release(number)
                done = storage.submit(lambda t, r=record: log.append(t, r))  # type: ignore[misc]
                os.write(pipe, b"%d\n" % done.number)

    with child(append_some) as (_, one), child(append_some) as (_, two):
        said = [int(number) for number in lines(one) + lines(two)]
    assert sorted(said) == list(range(80))
    with open_storage(place, [PART]) as storage:
        assert check_stored(storage, storage.submit(AuditLog.open)).size == 80


def publish_for_ever(place: str, copy: Path) -> Callable[[int], None]:
    def work(pipe: int) -> None:
        with open_storage(place, [PART]) as storage:
            log = storage.submit(AuditLog.open).known_by(PinnedCheckpoint(copy, policy(0)))
            while True:
                storage.submit(lambda t: log.append(t, release()))
                publish(storage, log, policy(0), [LOG_KEY])
                os.write(pipe, b".")

    return work


def test_the_kept_checkpoint_never_goes_back_whoever_publishes_and_is_killed(
    place: str, tmp_path: Path
) -> None:
    """Four processes append and publish, one after the other is killed; each time it is read, the
    copy is whole, signed, and no smaller than before. Nobody takes the others for a rollback."""
    kept = PinnedCheckpoint(tmp_path / "audit.checkpoint", policy(0))
    with open_storage(place, [PART]) as storage:
        storage.submit(lambda t: AuditLog.create(t, ORIGIN))
    sizes = [0]
    with ExitStack() as stack:
        workers = [stack.enter_context(child(publish_for_ever(place, kept.path))) for _ in range(4)]
        for process, pipe in workers:
            for _ in range(12):
                assert os.read(pipe, 1), "a process stopped by itself"
                found = kept.read()
                sizes.append(0 if found is None else found.size)
            kill(process)
    assert sizes == sorted(sizes)
    assert sizes[-1] >= 48
    with open_storage(place, [PART]) as storage:
        log = storage.submit(AuditLog.open).known_by(kept)
        storage.submit(log.check)


def test_a_killed_witness_never_forgets_what_it_cosigned(tmp_path: Path) -> None:
    """Cosignatures leave after the state is durable: killed anywhere, it cosigns no fork."""
    small = SmallLog.of([release(n) for n in range(120)])
    forked = SmallLog.of([release(n + 1) for n in range(120)])
    path = tmp_path / "witness.db"

    def body(log: SmallLog, old: int, new: int) -> bytes:
        proof = log.storage.submit(lambda t: log.log.consistency_proof(t, old, new))
        return bytes(AddCheckpointRequest(old, proof, bytes(log.note(new, cosigners=()))))

    bodies = {old: body(small, old, old + 1) for old in range(119)}

    def cosign_on(first: int) -> Callable[[int], None]:
        def work(pipe: int) -> None:
            witness = Witness(open_storage(path, [WITNESS_PART]), WITNESS_KEYS[0], LOGS)
            for old in range(first, 119):
                assert witness.add_checkpoint(bodies[old]).status == 200
                os.write(pipe, b"%d\n" % (old + 1))

        return work

    chance, stands_at = random.Random(3), 0
    while stands_at < 100:
        with child(cosign_on(stands_at)) as (process, pipe):
            select.select([pipe], [], [], 10)
            time.sleep(chance.uniform(0, 0.004))
            kill(process)
            heard = [int(number) for number in lines(pipe)]
        with open_storage(path, [WITNESS_PART]) as storage:
            witness = Witness(storage, WITNESS_KEYS[0], LOGS)
            reply = witness.add_checkpoint(body(forked, 0, 120))
            assert reply.status == 409
            stored = int(reply.body)
            assert stored >= max([stands_at, *heard])
            assert witness.add_checkpoint(body(forked, stored, 120)).status == 422
        stands_at = stored


# --- witnesses -----------------------------------------------------------------------------------


@contextmanager
def running(server: ThreadingHTTPServer) -> Iterator[str]:
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        host, port = server.server_address[:2]
        yield f"http://{host!s}:{port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join(60)


@contextmanager
def honest(key: SigningKey) -> Iterator[str]:
    with (
        open_storage("memory:", [WITNESS_PART]) as storage,
        witness_at(Witness(storage, key, LOGS)) as url,
    ):
        yield url


Answer = Callable[[BaseHTTPRequestHandler, bytes], None]


@contextmanager
def answering(answer: Answer) -> Iterator[str]:
    """A witness that does whatever the test likes."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            with suppress(BrokenPipeError, ConnectionResetError):  # the log lost its patience
                answer(self, body)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    with running(server) as url:
        yield url


def say(status: int, content: bytes) -> Answer:
    def answer(handler: BaseHTTPRequestHandler, _: bytes) -> None:
        handler.send_response(status)
        handler.send_header("Content-Length", str(len(content)))
        handler.end_headers()
        handler.wfile.write(content)

    return answer


def drip(handler: BaseHTTPRequestHandler, __: bytes) -> None:
    """One byte after the other, for ever: no single read times out."""
    handler.send_response(200)
    handler.end_headers()
    for _ in range(200):
        handler.wfile.write(b"x")
        handler.wfile.flush()
        time.sleep(0.05)


def silence(_: BaseHTTPRequestHandler, __: bytes) -> None:
    time.sleep(5)


def cosign_something_else(key: SigningKey) -> Answer:
    """A sound cosignature, of another checkpoint: a replay."""
    text = SmallLog.of([release(99)]).note(1).text

    def answer(handler: BaseHTTPRequestHandler, body: bytes) -> None:
        say(200, str(key.cosign(text, 1_700_000_000)).encode())(handler, body)

    return answer


def cosign_blindly(key: SigningKey) -> Answer:
    """What a witness outside the policy would send."""

    def answer(handler: BaseHTTPRequestHandler, body: bytes) -> None:
        text = Note.parse(AddCheckpointRequest.parse(body).note).text
        say(200, str(key.cosign(text, 1_700_000_000)).encode())(handler, body)

    return answer


def closed_port() -> str:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{free.getsockname()[1]}"


STRANGER = SigningKey.generate("stranger.example", WITNESS_KEYS[0].kind)
FAULTS: dict[str, tuple[Answer, AskOutcome]] = {
    "garbage": (say(200, b"\x00\xff garbage \n"), AskOutcome.GARBAGE),
    "empty": (say(200, b""), AskOutcome.GARBAGE),
    "no newline": (say(200, "— witness0.example QUJDREVGRw==".encode()), AskOutcome.GARBAGE),
    "false signature": (
        say(200, f"— witness0.example {'A' * 104}\n".encode()),
        AskOutcome.GARBAGE,
    ),
    "endless": (say(200, b"x" * 1_000_000), AskOutcome.GARBAGE),
    "replay": (cosign_something_else(WITNESS_KEYS[0]), AskOutcome.GARBAGE),
    "stranger": (cosign_blindly(STRANGER), AskOutcome.GARBAGE),
    "refuses": (say(403, b"no\x1b[31m signature\n"), AskOutcome.REFUSED),
    "breaks": (say(500, b"oops\n"), AskOutcome.REFUSED),
    "redirects": (say(302, b""), AskOutcome.REFUSED),
    "409 without a size": (say(409, b"seven\n"), AskOutcome.GARBAGE),
    "409 for ever": (say(409, b"3\n"), AskOutcome.REFUSED),
    "409 of the future": (say(409, b"1000000\n"), AskOutcome.AHEAD),
    "silence": (silence, AskOutcome.LATE),
    "drip": (drip, AskOutcome.LATE),
}


@pytest.fixture
def storage() -> Iterator[Storage]:
    with open_storage("memory:", [PART]) as opened:
        yield opened


@pytest.fixture
def log(storage: Storage) -> AuditLog:
    log = storage.submit(lambda t: AuditLog.create(t, ORIGIN))
    append(storage, log, range(10))
    return log


def append(storage: Storage, log: AuditLog, numbers: range) -> None:
    for number in numbers:
        storage.submit(lambda t, n=number: log.append(t, release(n)))  # type: ignore[misc]


def publish_with(
    storage: Storage, log: AuditLog, threshold: int, urls: list[str], patience: float = 1.0
) -> PublishedCheckpoints:
    witnesses = [RemoteWitness(url) for url in urls]
    rules = policy(threshold)
    return publish(storage, log, rules, [LOG_KEY], witnesses=witnesses, patience=patience)


def test_k_of_n_are_collected_before_anything_is_published(storage: Storage, log: AuditLog) -> None:
    with ExitStack() as stack:
        urls = [stack.enter_context(honest(key)) for key in WITNESS_KEYS]
        for size in (10, 10, 17, 30):
            append(storage, log, range(storage.submit(log.head).size, size))
            published = publish_with(storage, log, 3, urls)
            assert {answer.outcome for answer in published.answers} == {AskOutcome.COSIGNED}
            receipt = bytes(issue_receipt(storage, log, size - 1))
            assert verify_receipt(receipt, policy(3)).verified


@pytest.mark.parametrize("fault", FAULTS)
def test_one_bad_witness_of_three_is_survived_and_named(
    storage: Storage, log: AuditLog, fault: str
) -> None:
    answer, outcome = FAULTS[fault]
    with ExitStack() as stack:
        urls = [stack.enter_context(honest(key)) for key in WITNESS_KEYS[1:]]
        urls.append(stack.enter_context(answering(answer)))
        start = time.monotonic()
        published = publish_with(storage, log, 2, urls)
        assert time.monotonic() - start < 2.5
        assert [a.outcome for a in published.answers] == [
            AskOutcome.COSIGNED,
            AskOutcome.COSIGNED,
            outcome,
        ]
        assert str(published.answers[2]).isprintable()
        assert len(published.note.signers(policy(2).witness_keys)) == 2
        assert verify_receipt(bytes(issue_receipt(storage, log, 3)), policy(2)).verified


@pytest.mark.parametrize("fault", FAULTS)
def test_below_the_threshold_what_is_missing_is_named_and_collected_later(
    storage: Storage, log: AuditLog, fault: str
) -> None:
    """Whoever says nothing about the log cannot stop it; whoever knows another history can."""
    answer, outcome = FAULTS[fault]
    with ExitStack() as stack:
        good, late = (stack.enter_context(honest(key)) for key in WITNESS_KEYS[1:])
        bad = stack.enter_context(answering(answer))
        if outcome is AskOutcome.AHEAD:
            with pytest.raises(ContradictedCheckpoint, match="1 of 3") as caught:
                publish_with(storage, log, 2, [good, bad], patience=0.6)
            assert bad in str(caught.value)
            assert latest_checkpoint(storage) is None
            return
        published = publish_with(storage, log, 2, [good, bad], patience=0.6)
        assert [a.outcome for a in published.answers] == [AskOutcome.COSIGNED, outcome]
        assert published.missing == 1
        receipt = bytes(issue_receipt(storage, log, 3, NONCES))
        assert not verify_receipt(receipt, policy(2)).verified
        assert publish_with(storage, log, 2, [late]).missing == 0  # with the one of before
        completed = reissue(storage, log, receipt)
        assert verify_receipt(completed, policy(2), query=QUERY).verified


def test_a_witness_that_is_down_is_named_and_asked_again_next_time(
    storage: Storage, log: AuditLog
) -> None:
    (answer,) = publish_with(storage, log, 1, [closed_port()]).answers
    assert "could not be reached" in str(answer)
    with honest(WITNESS_KEYS[0]) as url:
        assert publish_with(storage, log, 1, [url]).missing == 0


def test_a_flood_is_not_read_to_its_end(storage: Storage, log: AuditLog) -> None:
    sent, everything = [0], 256 * 1024 * 1024

    def flood(handler: BaseHTTPRequestHandler, _: bytes) -> None:
        handler.send_response(200)
        handler.end_headers()
        while sent[0] < everything:
            sent[0] += handler.wfile.write(b"x" * 65536)

    with answering(flood) as url:
        assert publish_with(storage, log, 1, [url]).missing == 1
    assert sent[0] < everything / 4


def test_one_witness_asked_twice_counts_once(storage: Storage, log: AuditLog) -> None:
    with honest(WITNESS_KEYS[0]) as url:
        assert publish_with(storage, log, 2, [url, url, url + "/"]).missing == 1


def test_a_witness_catches_up_from_wherever_it_stands(storage: Storage, log: AuditLog) -> None:
    with ExitStack() as stack:
        urls = [stack.enter_context(honest(key)) for key in WITNESS_KEYS[:2]]
        publish_with(storage, log, 1, urls[:1])
        append(storage, log, range(10, 20))
        publish_with(storage, log, 2, urls)  # one stands at 10, the other at 0
        append(storage, log, range(20, 31))
        assert publish_with(storage, log, 2, urls).checkpoint.size == 31


def test_witnesses_stop_a_log_that_was_set_back_or_forked(storage: Storage, log: AuditLog) -> None:
    """The database is restored from yesterday's copy and goes on: nothing inside it can tell."""
    with ExitStack() as stack:
        urls = [stack.enter_context(honest(key)) for key in WITNESS_KEYS]
        publish_with(storage, log, 3, urls)
        with open_storage("memory:", [PART]) as restored:
            again = restored.submit(lambda t: AuditLog.create(t, ORIGIN))
            append(restored, again, range(6))
            with pytest.raises(ContradictedCheckpoint, match="has seen more records"):
                publish_with(restored, again, 3, urls)
            append(restored, again, range(100, 104))
            with pytest.raises(ContradictedCheckpoint, match="another root"):
                publish_with(restored, again, 3, urls)
            append(restored, again, range(104, 110))
            with pytest.raises(ContradictedCheckpoint, match="422"):
                publish_with(restored, again, 3, urls)
            assert latest_checkpoint(restored) is None


@pytest.mark.parametrize(
    "url",
    ["", "witness.example", "ftp://witness.example", "http://", "http://[", "http://w:port"],
)
def test_what_is_no_address_of_a_witness_is_refused(url: str) -> None:
    """In a policy too: it is found when the policy is read, before anything is charged."""
    with pytest.raises(InvalidInput, match="http://"):
        RemoteWitness(url)
    with pytest.raises(ValueError, match="witness_urls"):
        replace(policy(0), witness_urls=(url,))
    known = replace(policy(0), witness_urls=("https://witness.example/voile",))
    assert type(known).parse(str(known)) == known


# --- clients of a witness that are slow, endless or many ------------------------------------------


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_running, "LONGEST_HEAD", 0.4)
    monkeypatch.setattr(edge, "LONGEST_BODY", 0.4)
    monkeypatch.setattr(server_running, "MOST_AT_ONCE", 8)


def connected(url: str) -> socket.socket:
    host, _, port = url.removeprefix("http://").partition(":")
    return socket.create_connection((host, int(port)), timeout=10)


def hangs_up(connection: socket.socket, head: bytes, rest: bytes) -> bool:
    """Whether the other side ends it while we go on byte by byte; we give up after ten seconds."""
    start = time.monotonic()
    try:
        connection.sendall(head)
        while time.monotonic() - start < 10:
            connection.sendall(rest)
            time.sleep(0.02)
    except OSError:
        return True
    return False


@pytest.mark.usefixtures("hurried")
@pytest.mark.parametrize(
    ("head", "rest"),
    [
        (b"", b"P"),
        (b"POST /add-checkpoint HTTP/1.1\r\n", b"a: b\r\n"),
        (b"POST /add-checkpoint HTTP/1.1\r\nContent-Length: 50000\r\n\r\n", b"x"),
        (b"POST /add-checkpoint HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", b"1\r\nx\r\n"),
    ],
    ids=["request line", "headers", "body", "chunks"],
)
def test_nobody_is_listened_to_for_ever(head: bytes, rest: bytes) -> None:
    with honest(WITNESS_KEYS[0]) as url, connected(url) as connection:
        assert hangs_up(connection, head, rest)


@pytest.mark.usefixtures("hurried")
def test_connections_that_say_nothing_do_not_keep_others_out(
    storage: Storage, log: AuditLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many more than there is room for, none of which ever ends by itself."""
    monkeypatch.setattr(server_running, "LONGEST_HEAD", 1000.0)
    before = threading.active_count()
    with honest(WITNESS_KEYS[0]) as url, ExitStack() as stack:
        for _ in range(100):
            stack.enter_context(connected(url))
        assert publish_with(storage, log, 1, [url], patience=10).missing == 0
        assert threading.active_count() < before + 40


def test_interrupting_a_loaded_witness_is_clean(tmp_path: Path) -> None:
    """Ctrl-C while requests, idle connections and storage are busy: an orderly end, no traceback,
    and the database is whole."""
    rules = tmp_path / "policy.toml"
    rules.write_text(str(policy(0)))
    small = SmallLog.of([release(n) for n in range(30)])
    for number in range(3):
        command = [sys.executable, "-m", "voile.cli", "audit", "witness", f"{tmp_path}/w.db"]
        command += ["--name", "w.example", "--key", f"{tmp_path}/w.key", "--port", "0", "--json"]
        process = subprocess.Popen(
            [*command, "--policy", str(rules)], stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        assert process.stdout is not None
        said = b""
        while not said.endswith(b"}\n"):
            said += process.stdout.readline()
        url = json.loads(said)["url"]
        with process, ExitStack() as stack:
            stack.callback(process.kill)  # whatever fails here, nothing is left behind
            idle = [stack.enter_context(connected(url)) for _ in range(20)]
            stop, answered = stack.enter_context(asking_for_ever(url, small))
            assert answered.wait(60)  # however busy this machine is
            time.sleep(0.1 * number)
            process.send_signal((signal.SIGINT, signal.SIGTERM)[number % 2])
            out, errors = process.communicate(timeout=30)
            stop.set()
            assert len(idle) == 20
        assert (process.returncode, errors) == (0, b""), out
    with open_storage(tmp_path / "w.db", [WITNESS_PART]) as storage:
        witness = Witness(storage, WITNESS_KEYS[0], LOGS)
        assert witness.add_checkpoint(asking(small, 0)).status == 409  # it stands somewhere


@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_while_the_witness_starts_is_not_lost(
    tmp_path: Path, sign: signal.Signals
) -> None:
    """It comes when the address is told, before the server listens to signals."""

    def serving(pipe: int) -> None:
        with open_storage(tmp_path / "w.db", [WITNESS_PART]) as storage:
            witness, address = (
                Witness(storage, WITNESS_KEYS[0], LOGS),
                ServerAddress("127.0.0.1", 0),
            )
            stop = threading.Event()
            server_running.run_witness(witness, address, lambda _: os.kill(os.getpid(), sign), stop)
            os.write(pipe, b"ended\n" if stop.is_set() else b"running\n")

    with child(serving) as (_, pipe):
        assert lines(pipe) == ["ended"]


def asking(small: SmallLog, old: int, new: int = 30) -> bytes:
    proof = small.storage.submit(lambda t: small.log.consistency_proof(t, old, new))
    return bytes(AddCheckpointRequest(old, proof, bytes(small.note(new, cosigners=()))))


@contextmanager
def asking_for_ever(url: str, small: SmallLog) -> Iterator[tuple[threading.Event, threading.Event]]:
    """Set the first to stop; the second says that the witness knows the log and answers."""
    bodies = [asking(small, old, old + 1) for old in range(29)]
    stop, answered = threading.Event(), threading.Event()

    def ask() -> None:
        number = 0
        while not stop.is_set():
            with suppress(OSError, http.client.HTTPException):
                status, _ = RemoteWitness(url).post(bodies[number % len(bodies)], 5)
                if status in (200, 409):
                    answered.set()
            number += 1

    threads = [threading.Thread(target=ask) for _ in range(6)]
    for thread in threads:
        thread.start()
    try:
        yield stop, answered
    finally:
        stop.set()
        for thread in threads:
            thread.join(30)
