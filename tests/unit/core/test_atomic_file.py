"""Files that are either the old one or the new one. Kill -9 and full disks are in tests/faults."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from voile.core.atomic_file import (
    check_output,
    check_output_folder,
    create_file,
    disk_fault,
    replace_file,
)
from voile.core.errors import InvalidInput, StorageFault, StorageFull, StorageReadOnly


@pytest.fixture
def _plain_umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


def permissions(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("content", [b"", b"x", bytes(range(256)) * 5000])
def test_the_bytes_are_there_and_nothing_else(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "x"
    assert replace_file(path, content) == path
    assert path.read_bytes() == content
    assert list(tmp_path.iterdir()) == [path]


def test_an_old_file_is_replaced_as_a_whole(tmp_path: Path) -> None:
    path = tmp_path / "x"
    replace_file(path, b"a long old content")
    with path.open("rb") as reader:
        replace_file(path, b"new")
        assert reader.read() == b"a long old content"  # whoever reads keeps what was opened
    assert path.read_bytes() == b"new"


@pytest.mark.usefixtures("_plain_umask")
def test_a_file_has_the_permissions_asked_for(tmp_path: Path) -> None:
    assert permissions(replace_file(tmp_path / "x", b"")) == 0o644
    assert permissions(replace_file(tmp_path / "y", b"", mode=0o600)) == 0o600


@pytest.mark.usefixtures("_plain_umask")
def test_a_file_is_as_private_as_the_umask_wants(tmp_path: Path) -> None:
    os.umask(0o077)
    assert permissions(replace_file(tmp_path / "x", b"")) == 0o600


@pytest.mark.parametrize("name", ["n" * 255, "ü" * 127, ".hidden", "a b\n'", "-rf"])
def test_any_name_that_a_file_can_have_will_do(name: str, tmp_path: Path) -> None:
    assert replace_file(tmp_path / name, b"x").read_bytes() == b"x"
    assert len(list(tmp_path.iterdir())) == 1


def test_a_relative_name_will_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert replace_file(Path("x"), b"x").read_bytes() == b"x"


@pytest.mark.parametrize("step", ["fsync", "replace", "write"])
def test_a_failure_at_any_step_keeps_the_old_file_and_leaves_no_neighbour(
    step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = replace_file(tmp_path / "x", b"old")

    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, "full")

    if step == "fsync":
        monkeypatch.setattr(os, "fsync", fail)
    elif step == "replace":
        monkeypatch.setattr(Path, "replace", fail)
    else:
        monkeypatch.setattr(os, "fdopen", fail)
    with pytest.raises(StorageFull):
        replace_file(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_an_interrupt_leaves_no_neighbour(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(_: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        replace_file(tmp_path / "x", b"new")
    assert list(tmp_path.iterdir()) == []


def test_content_and_folder_are_forced_to_the_disk_in_this_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    forced: list[tuple[str, bool]] = []
    real = os.fsync

    def note(descriptor: int) -> None:
        kind = "folder" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "content"
        forced.append((kind, (tmp_path / "x").exists()))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", note)
    replace_file(tmp_path / "x", b"new")
    assert forced == [("content", False), ("folder", True)]


def test_no_descriptor_is_left_open(tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    replace_file(tmp_path / "x", b"new")
    with pytest.raises(StorageFault):
        replace_file(tmp_path, b"new")
    assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208


@pytest.mark.parametrize(
    ("number", "kind"),
    [
        (errno.ENOSPC, StorageFull),
        (errno.EDQUOT, StorageFull),
        (errno.EFBIG, StorageFull),
        (errno.EROFS, StorageReadOnly),
        (errno.EACCES, StorageReadOnly),
        (errno.EPERM, StorageReadOnly),
        (errno.EIO, StorageFault),
        (errno.ENOENT, StorageFault),
        (None, StorageFault),
    ],
)
def test_what_the_disk_says_is_translated(number: int | None, kind: type[StorageFault]) -> None:
    error = OSError() if number is None else OSError(number, os.strerror(number))
    fault = disk_fault(Path("folder/x"), error)
    assert type(fault) is kind
    assert "folder/x" in str(fault)
    if number is not None:
        assert os.strerror(number) in str(fault)


def test_a_place_is_checked_before_there_is_anything_to_write(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "folder").mkdir()
    for path in (tmp_path / "new", tmp_path / "file"):
        check_output(path)
    for path in (tmp_path / "new", tmp_path / "folder", tmp_path / "a" / "b" / "c"):
        check_output_folder(path)
    for path in (tmp_path / "folder", tmp_path / "none" / "x", tmp_path / "file" / "x"):
        with pytest.raises(InvalidInput, match="folder"):
            check_output(path)
    with pytest.raises(InvalidInput, match="found a file"):
        check_output_folder(tmp_path / "file")
    with pytest.raises(StorageFault):
        check_output_folder(tmp_path / "file" / "x")
    with pytest.raises(StorageFault):
        check_output(Path("/proc/nothing"))
    assert {path.name for path in tmp_path.iterdir()} == {"file", "folder"}


# --- files that are made once ---------------------------------------------------------------------


def test_a_file_is_made_once_and_never_changed(tmp_path: Path) -> None:
    path = tmp_path / "x"
    assert create_file(path, b"first")
    assert not create_file(path, b"second")
    assert path.read_bytes() == b"first"
    assert list(tmp_path.iterdir()) == [path]


def test_of_many_creators_one_is_told_that_the_file_is_its_own(tmp_path: Path) -> None:
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda n: create_file(tmp_path / "x", str(n).encode()), range(32)))
    assert sum(made) == 1
    assert (tmp_path / "x").read_bytes() == str(made.index(True)).encode()


def test_where_nothing_can_be_written_nothing_is_made(tmp_path: Path) -> None:
    with pytest.raises(StorageFault):
        create_file(tmp_path / "nowhere" / "x", b"")
