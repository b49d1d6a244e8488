"""The witness, request by request: each status of c2sp.org/tlog-witness, and what it remembers."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.records.audit_log.examples import (
    LOG_KEY,
    ORIGIN,
    WITNESS_KEYS,
    SmallLog,
    release,
    signing_key,
)

from voile.core.errors import InvalidInput
from voile.records.audit_log import Witness
from voile.records.audit_log.merkle import EMPTY_ROOT
from voile.records.audit_log.notes import Checkpoint, Note, Signature, cosigned_at, parse_signatures
from voile.records.audit_log.witness import (
    PART,
    SIZE_TYPE,
    AddCheckpointRequest,
    Reply,
)
from voile.records.storage import Storage, open_storage

KEY = WITNESS_KEYS[0]
NOW = 1_700_000_500


@pytest.fixture(scope="module")
def small() -> SmallLog:
    return SmallLog.of([release(n) for n in range(40)])


@pytest.fixture(scope="module")
def forked() -> SmallLog:
    return SmallLog.of([release(n) for n in (*range(10), *range(100, 130))])


@pytest.fixture
def storage() -> Iterator[Storage]:
    with open_storage("memory:", [PART]) as opened:
        yield opened


@pytest.fixture
def witness(storage: Storage) -> Witness:
    return Witness(storage, KEY, {ORIGIN: (LOG_KEY.verifier,)}, clock=lambda: NOW)


def request(log: SmallLog, old: int, new: int, note: Note | None = None) -> bytes:
    proof = log.storage.submit(lambda t: log.log.consistency_proof(t, min(old, new), new))
    return bytes(AddCheckpointRequest(old, proof, bytes(note or log.note(new, cosigners=()))))


def assert_cosigned(reply: Reply, note: Note) -> None:
    assert reply.status == 200
    signatures = parse_signatures(reply.body.decode())
    found = Note(note.text, signatures).signers([KEY.verifier])
    assert list(found) == [KEY.verifier]
    assert cosigned_at(found[KEY.verifier].value) == NOW


def assert_stands_at(witness: Witness, log: SmallLog, size: int) -> None:
    """Asked with an impossible old size, a witness says where it stands."""
    reply = witness.add_checkpoint(request(log, 39, 40))
    assert reply == Reply(409, b"%d\n" % size, SIZE_TYPE)


class TestStatuses:
    def test_200_growth_is_cosigned_step_by_step(self, witness: Witness, small: SmallLog) -> None:
        for old, new in [(0, 7), (7, 8), (8, 8), (8, 31)]:
            reply = witness.add_checkpoint(request(small, old, new))
            assert_cosigned(reply, small.note(new))
        assert_stands_at(witness, small, 31)

    def test_200_an_empty_log(self, witness: Witness) -> None:
        empty = SmallLog.of([])
        assert witness.add_checkpoint(request(empty, 0, 0)).status == 200

    @pytest.mark.parametrize(
        "spoil",
        [
            lambda _: b"",
            lambda body: body.replace(b"old 0", b"old 00"),
            lambda body: body.replace(b"old 0", b"old -1"),
            lambda body: body.replace(b"old 0", b"OLD 0"),
            lambda body: body.replace(b"old 0", b"old"),
            lambda body: body.replace(b"old 0\n", b"old 0\nnot a hash\n"),
            lambda body: body.replace(b"old 0\n", b"old 0\n" + (b"A" * 43 + b"=\n") * 64),
            lambda body: body.replace(b"old 0\n", b""),
            lambda body: body.rstrip(b"\n"),
            lambda body: body + b"\n",
            lambda body: body.replace(b"old 0", b"\xff\xfe 0"),
            lambda body: body.partition(b"\n\n")[0],
        ],
    )
    def test_400_a_body_of_another_form(
        self,
        witness: Witness,
        small: SmallLog,
        spoil: object,
    ) -> None:
        body = spoil(request(small, 0, 7))  # type: ignore[operator]
        assert witness.add_checkpoint(body).status == 400

    def test_400_an_old_size_above_the_checkpoint_s(
        self, witness: Witness, small: SmallLog
    ) -> None:
        body = bytes(AddCheckpointRequest(9, (), bytes(small.note(7))))
        assert witness.add_checkpoint(body).status == 400

    def test_403_no_trusted_signature(self, witness: Witness, small: SmallLog) -> None:
        stranger = small.note(7, signers=[signing_key("stranger")])
        assert witness.add_checkpoint(request(small, 0, 7, stranger)).status == 403
        sound = small.note(7, cosigners=())
        false = Signature(ORIGIN, LOG_KEY.verifier.key_id, bytes(64))
        spoiled = Note(sound.text, (false,))
        assert witness.add_checkpoint(request(small, 0, 7, spoiled)).status == 403
        assert_stands_at(witness, small, 0)

    def test_404_an_unknown_log(self, storage: Storage, small: SmallLog) -> None:
        witness = Witness(storage, KEY, {"other.example/log": (LOG_KEY.verifier,)})
        assert witness.add_checkpoint(request(small, 0, 7)).status == 404

    def test_409_another_old_size_says_where_the_witness_stands(
        self, witness: Witness, small: SmallLog
    ) -> None:
        witness.add_checkpoint(request(small, 0, 7))
        for old in (0, 6, 8):
            reply = witness.add_checkpoint(request(small, old, 20))
            assert reply == Reply(409, b"7\n", SIZE_TYPE)

    def test_409_another_root_for_the_same_size(
        self, witness: Witness, small: SmallLog, forked: SmallLog
    ) -> None:
        witness.add_checkpoint(request(small, 0, 20))
        assert witness.add_checkpoint(request(forked, 20, 20)).status == 409
        text = Checkpoint(ORIGIN, 0, b"x" * 32).text
        empty = bytes(AddCheckpointRequest(0, (), bytes(Note(text, (LOG_KEY.sign(text),)))))
        assert witness.add_checkpoint(empty).status == 409

    def test_409_an_empty_log_has_one_root(self, witness: Witness) -> None:
        text = Checkpoint(ORIGIN, 0, b"x" * 32).text
        body = bytes(AddCheckpointRequest(0, (), bytes(Note(text, (LOG_KEY.sign(text),)))))
        assert witness.add_checkpoint(body).status == 409
        text = Checkpoint(ORIGIN, 0, EMPTY_ROOT).text
        body = bytes(AddCheckpointRequest(0, (), bytes(Note(text, (LOG_KEY.sign(text),)))))
        assert witness.add_checkpoint(body).status == 200

    def test_422_a_fork(self, witness: Witness, small: SmallLog, forked: SmallLog) -> None:
        """Everything is in order except history itself."""
        witness.add_checkpoint(request(small, 0, 20))
        assert witness.add_checkpoint(request(forked, 20, 30)).status == 422
        assert_stands_at(witness, small, 20)
        assert_cosigned(witness.add_checkpoint(request(small, 20, 30)), small.note(30))

    def test_422_a_proof_from_nothing_must_be_empty(
        self, witness: Witness, small: SmallLog
    ) -> None:
        body = bytes(AddCheckpointRequest(0, (b"x" * 32,), bytes(small.note(7))))
        assert witness.add_checkpoint(body).status == 422

    def test_a_rollback_is_never_cosigned(self, witness: Witness, small: SmallLog) -> None:
        witness.add_checkpoint(request(small, 0, 20))
        for old in (0, 10, 20):
            body = bytes(AddCheckpointRequest(old, (), bytes(small.note(10))))
            assert witness.add_checkpoint(body).status in (400, 409)
        assert_stands_at(witness, small, 20)


def test_a_witness_needs_a_key_of_its_own(storage: Storage) -> None:
    with pytest.raises(InvalidInput, match="a log's key"):
        Witness(storage, LOG_KEY, {})


def test_it_remembers_after_a_restart(tmp_path: Path, small: SmallLog, forked: SmallLog) -> None:
    logs = {ORIGIN: (LOG_KEY.verifier,)}
    with open_storage(tmp_path / "w.db", [PART]) as storage:
        Witness(storage, KEY, logs).add_checkpoint(request(small, 0, 20))
    with open_storage(tmp_path / "w.db", [PART]) as storage:
        again = Witness(storage, KEY, logs)
        assert again.add_checkpoint(request(forked, 0, 30)).status == 409
        assert again.add_checkpoint(request(forked, 20, 30)).status == 422


def test_racing_requests_never_set_it_back(witness: Witness, small: SmallLog) -> None:
    """The race the specification warns of: whoever comes second has another old size."""
    witness.add_checkpoint(request(small, 0, 5))
    bodies = [request(small, 5, new) for new in range(6, 38)]
    replies: dict[int, int] = {}

    def ask(number: int) -> None:
        replies[number] = witness.add_checkpoint(bodies[number]).status

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(len(bodies))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert sorted(replies.values()) == [200] + [409] * (len(bodies) - 1)
    winner = next(number for number, status in replies.items() if status == 200)
    assert_stands_at(witness, small, winner + 6)
