"""The checkpoint that is kept outside the database: it never goes back, and it is believed."""

from __future__ import annotations

import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.unit.records.audit_log.examples import LOG_KEY, SmallLog, policy, release, signing_key

from voile.core.errors import (
    InvalidInput,
    StorageBusy,
    StorageFault,
    UnreadableFile,
    VerificationFailed,
)
from voile.records.audit_log import PinnedCheckpoint, publish


@pytest.fixture(scope="module")
def small() -> SmallLog:
    return SmallLog.of([release(n) for n in range(40)])


@pytest.fixture
def kept(tmp_path: Path) -> PinnedCheckpoint:
    return PinnedCheckpoint(tmp_path / "audit.checkpoint", policy(0))


def note(small: SmallLog, size: int) -> bytes:
    return bytes(small.note(size))


def test_it_keeps_the_largest_and_never_goes_back(kept: PinnedCheckpoint, small: SmallLog) -> None:
    assert kept.read() is None
    for size, expected in ((5, 5), (3, 5), (9, 9), (9, 9), (0, 9)):
        kept.advance(note(small, size))
        found = kept.read()
        assert found is not None
        assert found.size == expected


def test_threads_that_publish_at_once_leave_the_largest(
    kept: PinnedCheckpoint, small: SmallLog
) -> None:
    notes = [note(small, size) for size in range(40, 0, -1)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(kept.advance, notes))
    found = kept.read()
    assert found is not None
    assert found.size == 40
    assert {path.name for path in kept.path.parent.iterdir()} == {
        "audit.checkpoint",
        ".audit.checkpoint.lock",
    }


def test_what_is_not_signed_by_this_log_is_neither_kept_nor_believed(
    kept: PinnedCheckpoint, small: SmallLog
) -> None:
    stranger = bytes(small.note(5, signers=[signing_key("stranger")]))
    with pytest.raises(VerificationFailed, match="not signed"):
        kept.advance(stranger)
    for content, reason in (
        (stranger, "not signed"),
        (b"", "damaged"),
        (note(small, 5)[:-20], "damaged"),
        (b"x" * 10**6, "damaged"),
    ):
        kept.path.write_bytes(content)
        with pytest.raises(VerificationFailed, match=reason):
            kept.read()
        with pytest.raises(VerificationFailed, match=reason):
            kept.advance(note(small, 5))
        assert kept.path.read_bytes() == content


def test_the_lock_follows_no_link_and_is_a_plain_file(
    kept: PinnedCheckpoint, small: SmallLog, tmp_path: Path
) -> None:
    lock, victim = tmp_path / ".audit.checkpoint.lock", tmp_path / "victim"
    victim.write_text("precious")
    lock.symlink_to(victim)
    with pytest.raises(StorageFault):
        kept.advance(note(small, 5))
    lock.unlink()
    os.mkfifo(lock)
    with pytest.raises(UnreadableFile, match="plain file"):
        kept.advance(note(small, 5))
    lock.unlink()
    kept.advance(note(small, 5))
    assert stat.S_IMODE(lock.stat().st_mode) == 0o600
    assert victim.read_text() == "precious"


def test_a_lock_that_is_never_given_back_is_told(
    kept: PinnedCheckpoint, small: SmallLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    import fcntl

    kept.advance(note(small, 5))
    monkeypatch.setattr("voile.records.audit_log.kept.PATIENCE", 0.05)
    with kept.path.with_name(".audit.checkpoint.lock").open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(StorageBusy, match="another process"):
            kept.advance(note(small, 7))


class TestAKnownLog:
    """A log that does not extend its copy grows by nothing, whoever appends."""

    def test_nothing_is_appended_to_a_log_that_was_set_back(
        self, kept: PinnedCheckpoint, small: SmallLog
    ) -> None:
        kept.advance(note(small, 9))
        for records in (range(6), range(100, 109), range(100, 120)):  # shorter, other, longer
            other = SmallLog.of([release(n) for n in records])
            known = other.log.known_by(kept)
            with pytest.raises(VerificationFailed, match="set back"):
                other.storage.submit(lambda t, log=known: log.append(t, release(200)))  # type: ignore[misc]
            with pytest.raises(VerificationFailed, match="set back"):
                other.storage.submit(known.check)
            with pytest.raises(VerificationFailed, match="set back"):
                publish(other.storage, known, policy(0), [LOG_KEY])
            assert other.storage.submit(other.log.head).size == len(records)

    def test_a_copy_that_grows_is_compared_again(
        self, kept: PinnedCheckpoint, small: SmallLog
    ) -> None:
        """Somebody else publishes from another copy of the database while this one goes on."""
        other = SmallLog.of([release(n) for n in range(9)])
        known = other.log.known_by(kept)
        kept.advance(note(small, 9))
        other.storage.submit(lambda t: known.append(t, release(9)))
        kept.advance(note(small, 10))
        other.storage.submit(known.check)
        kept.advance(note(small, 30))
        with pytest.raises(VerificationFailed, match="covers 30 records"):
            other.storage.submit(known.check)

    def test_publishing_advances_the_copy(self, kept: PinnedCheckpoint) -> None:
        own = SmallLog.of([release(n) for n in range(4)])
        known = own.log.known_by(kept)
        for size in (4, 5, 6):
            assert publish(own.storage, known, policy(0), [LOG_KEY]).checkpoint.size == size
            found = kept.read()
            assert found is not None
            assert found.size == size
            own.storage.submit(lambda t, n=size: known.append(t, release(n)))  # type: ignore[misc]

    def test_the_policy_of_another_log_is_refused(self, small: SmallLog, tmp_path: Path) -> None:
        other = signing_key("log", name="other.example")
        rules = policy(0, [other], "other.example")
        with pytest.raises(InvalidInput, match="the policy is for"):
            small.log.known_by(PinnedCheckpoint(tmp_path / "x", rules))
