from __future__ import annotations

import io
import os
from pathlib import Path

import pytest

from voile.core.errors import UnreadableFile
from voile.core.input_file import read_at_most, read_file, read_json, read_text


def test_a_regular_file_is_read_whole(tmp_path: Path) -> None:
    path = tmp_path / "data"
    path.write_bytes(b"abc")
    (tmp_path / "link").symlink_to(path)
    assert read_file(path, 3) == read_file(tmp_path / "link") == b"abc"
    with pytest.raises(UnreadableFile, match="larger than the 2 bytes that are read"):
        read_file(path, 2)


def test_what_would_wait_or_never_end_is_refused(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path in (pipe, tmp_path, Path("/dev/zero")):
        with pytest.raises(UnreadableFile, match=r"cannot be read: .*expected a regular file"):
            read_file(path)
    for name in ("nowhere", "null\0byte", "x" * 5000):
        with pytest.raises(UnreadableFile, match="cannot be"):
            read_file(tmp_path / name)


def test_the_size_is_counted_not_believed() -> None:
    assert Path("/proc/self/status").stat().st_size == 0
    with pytest.raises(UnreadableFile, match="larger than the 1 KiB"):
        read_file(Path("/proc/self/status"), 1024)
    with Path("/dev/zero").open("rb") as endless, pytest.raises(UnreadableFile, match="larger"):
        read_at_most(endless, "standard input", 2**20)
    assert read_at_most(io.BytesIO(b"ab"), "standard input", 2) == b"ab"


@pytest.mark.parametrize("content", [b"{", b"\xff", b"[" * 100_000, b"1" * 5000, b'"\\ud800'])
def test_what_is_no_json_is_said_so(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "file.json"
    path.write_bytes(content)
    with pytest.raises(UnreadableFile, match=r"file\.json: expected JSON"):
        read_json(path)


def test_text_is_utf8(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"\xef\xbb\xbfcaf\xc3\xa9\r\n")
    assert read_text(path) == "café\r\n"
    path.write_bytes(b"caf\xe9")
    with pytest.raises(UnreadableFile, match="line 1: not UTF-8"):
        read_text(path)
