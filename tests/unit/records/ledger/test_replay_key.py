"""The key of the replay digests, and the file it lives in."""

from __future__ import annotations

import hashlib
import hmac
import stat
from pathlib import Path

import pytest

from voile.core.errors import InvalidInput, Refused, StorageFault, UnreadableFile
from voile.records.ledger import ReplayKey


def test_it_is_saved_for_its_owner_only_and_comes_back(tmp_path: Path) -> None:
    key, path = ReplayKey.generate(), tmp_path / "replay.key"
    key.save(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert ReplayKey.load(path) == key
    assert key.key.hex() not in repr(key)


def test_it_is_never_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "replay.key"
    ReplayKey.generate().save(path)
    with pytest.raises(InvalidInput, match="never overwritten"):
        ReplayKey.generate().save(path)


def test_files_that_are_no_key(tmp_path: Path) -> None:
    path = tmp_path / "replay.key"
    with pytest.raises(UnreadableFile):
        ReplayKey.load(path)
    for content in (b"", b"voile replay key v1 00", b"voile replay key v1 " + b"z" * 64):
        path.write_bytes(content)
        path.chmod(0o600)
        with pytest.raises(UnreadableFile):
            ReplayKey.load(path)
    with pytest.raises(StorageFault):
        ReplayKey.generate().save(tmp_path / "no such folder" / "replay.key")


def test_a_file_that_others_can_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "replay.key"
    ReplayKey.generate().save(path)
    path.chmod(0o644)
    with pytest.raises(Refused, match="chmod 600"):
        ReplayKey.load(path)


def test_digests_of_different_things_never_meet() -> None:
    key, other = ReplayKey(bytes(32)), ReplayKey(bytes(31) + b"\1")
    assert key.nonce("a#1", "query") != key.nonce("a#1", "answer")
    assert key.nonce("a#1", "query") != other.nonce("a#1", "query")
    assert key.records(["1"], "v1").isdisjoint(key.records(["1"], "v2"))
    assert len(key.records(["1", "2", "1"], "v1")) == 2


def test_the_nonces_of_a_charge_are_the_halves_of_a_plain_hmac() -> None:
    key = ReplayKey(bytes(range(32)))
    expected = hmac.digest(key.key, b"nonces\nclinic#7", hashlib.sha512)
    nonces = key.nonces("clinic#7")
    assert nonces == {"query": expected[:32], "answer": expected[32:]}
    assert not set(nonces.values()) & set(key.nonces("clinic#8").values())


def test_nonces_are_plain_hmac() -> None:
    key = ReplayKey(bytes(range(32)))
    expected = hmac.digest(key.key, b"nonce\nquery\nclinic#7", hashlib.sha256)
    assert key.nonce("clinic#7", "query") == expected
