"""The log over HTTP, as somebody reads it who has nothing of ours: RFC 6962 and tlog-tiles."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Sequence

import pytest
from tests.unit.server.examples import House

from voile.core.errors import InvalidInput
from voile.records.access import Duty
from voile.records.audit_log import KeyRevokedRecord, Tile


def root(leaves: Sequence[bytes]) -> bytes:
    """RFC 6962, section 2.1, word for word."""
    if not leaves:
        return hashlib.sha256().digest()
    if len(leaves) == 1:
        return hashlib.sha256(b"\0" + leaves[0]).digest()
    k = 1
    while 2 * k < len(leaves):
        k *= 2
    return hashlib.sha256(b"\1" + root(leaves[:k]) + root(leaves[k:])).digest()


def fill(house: House, count: int) -> None:
    """Records, until there are so many; all signed."""
    vault = house.workspace.vault
    there = vault.storage.read_snapshot(vault.log.head).size

    def append(t) -> None:  # type: ignore[no-untyped-def]
        for number in range(there, count):
            vault.log.append(t, KeyRevokedRecord(time=number, key=str(number), issuer="test"))

    vault.storage.submit(append)
    vault.publish()


def tile(house: House, key: str, path: str) -> bytes:
    found = house.ask("GET", f"/log/tile/{path}", key)
    assert found.status_code == 200, path
    return found.content


def entries(house: House, key: str, size: int) -> list[bytes]:
    """All records, from bundles."""
    found = []
    for index in range(-(-size // 256)):
        width = min(256, size - 256 * index)
        part = f"entries/{index:03}" + ("" if width == 256 else f".p/{width}")
        content = tile(house, key, part)
        while content:
            length = int.from_bytes(content[:2], "big")
            found.append(content[2 : 2 + length])
            content = content[2 + length :]
    return found


@pytest.mark.parametrize("size", [5, 256, 700])
def test_somebody_else_s_verifier_accepts_the_log(house: House, size: int) -> None:
    key = house.key(Duty.AUDIT)
    fill(house, size)
    _, told, said, *_ = house.ask("GET", "/log/checkpoint", key).text.split("\n")
    assert int(told) == size
    records = entries(house, key, size)
    assert len(records) == size
    assert root(records) == base64.b64decode(said)


def test_tiles_hold_the_hashes_of_the_tree(house: House) -> None:
    key = house.key(Duty.AUDIT)
    fill(house, 600)
    records = entries(house, key, 600)
    leaves = [hashlib.sha256(b"\0" + each).digest() for each in records]
    assert tile(house, key, "0/000") + tile(house, key, "0/001") == b"".join(leaves[:512])
    assert tile(house, key, "0/002.p/88") == b"".join(leaves[512:])
    assert tile(house, key, "0/002.p/7") == b"".join(leaves[512:519])
    assert tile(house, key, "1/000.p/2") == root(records[:256]) + root(records[256:512])


NOWHERE = [
    *("0/003", "0/002", "0/002.p/120", "1/000", "1/000.p/3", "2/000.p/1", "6/000", "0/0"),
    *("0/x000/001", "0/000.p/0", "0/000.p/256", "0/1000", "entries/002.p/200", "../keys"),
    *("0/x999/x999/x999/x999/x999/x999/999", ""),
]


def test_what_is_not_there_is_not_found(house: House) -> None:
    fill(house, 600)
    key = house.key(Duty.AUDIT)
    for path in NOWHERE:
        assert house.ask("GET", f"/log/tile/{path}", key).status_code == 404, path


def test_records_that_are_not_signed_are_in_no_tile(house: House) -> None:
    key = house.key(Duty.AUDIT)
    fill(house, 10)
    house.explain(house.key())
    assert house.ask("GET", "/log/tile/0/000.p/10", key).status_code == 200
    assert house.ask("GET", "/log/tile/0/000.p/11", key).status_code == 404


def test_records_come_in_pages_and_name_nobody(house: House) -> None:
    key = house.key(Duty.AUDIT)
    house.explain(house.key(), "people")
    everything = house.ask("GET", "/api/v1/records", key).json()["records"]
    page = house.ask("GET", "/api/v1/records?first=2&limit=2", key).json()["records"]
    assert page == everything[2:4]
    told = json.dumps(everything)
    assert "ada" not in told
    assert "ward 3" not in told


def test_the_path_of_a_tile() -> None:
    assert Tile.parse("0/x001/x234/067") == Tile(0, 1234067)
    assert Tile.parse("entries/000.p/255") == Tile(None, 0, 255)
    with pytest.raises(InvalidInput, match="one path only"):
        Tile.parse("0/x000/067")
