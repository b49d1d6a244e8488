"""Files from outside, read whole and within limits.

A name that is handed in may stand for a pipe into which nobody writes, for a device that never
ends, or for a file that does not fit into memory. Each is refused with its reason, before anything
waits or grows.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Final

from voile.core.errors import Refused, UnreadableFile

LARGEST_FILE: Final = 2 * 2**30
"""Bytes of a table, a model, a network or a saved explanation."""
LARGEST_TEXT: Final = 64 * 2**20
"""Bytes of a text: settings, a manifest, guarantees, a receipt."""

_OTHERS: Final = {stat.S_ISDIR: "a directory", stat.S_ISFIFO: "a pipe", stat.S_ISSOCK: "a socket"}


def read_file(path: Path, largest: int = LARGEST_FILE) -> bytes:
    """All bytes of a regular file; `UnreadableFile` says why there are none."""
    try:
        with open_regular(path) as stream:
            return read_at_most(stream, str(path), largest)
    except OSError as error:
        raise UnreadableFile(f"{path}: cannot be read: {error.strerror or error}") from error


def read_private(path: Path, what: str = "a secret") -> bytes:
    """The same of a file with a secret; `Refused` if others than its owner can get at it.

    The open file is looked at, not its name: nobody can swap it in between.
    """
    try:
        with open_regular(path) as stream:
            mode = stat.S_IMODE(os.fstat(stream.fileno()).st_mode)
            if mode & (stat.S_IRWXG | stat.S_IRWXO):
                raise Refused(f"{path}: mode {mode:04o} lets others at {what}; chmod 600 it")
            return read_at_most(stream, str(path), LARGEST_TEXT)
    except OSError as error:
        raise UnreadableFile(f"{path}: cannot be read: {error.strerror or error}") from error


def read_text(path: Path, largest: int = LARGEST_TEXT) -> str:
    """The text of a UTF-8 file, without a byte order mark."""
    content = read_file(path, largest)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise UnreadableFile(f"{path}: line {line}: not UTF-8") from error


def read_json(path: Path) -> Any:
    """The value in a JSON file."""
    content = read_file(path, LARGEST_TEXT)
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as error:
        raise UnreadableFile(f"{path}: expected JSON: {error}") from error


@contextmanager
def damaged(path: Path) -> Iterator[None]:
    """Whatever goes wrong inside while decoding is the file's fault, and is said so.

    Everything, because what numpy, zipfile, Arrow and others raise about damaged bytes is no part
    of what they promise.
    """
    try:
        yield
    except Exception as error:
        raise UnreadableFile(f"{path}: damaged, cut short or foreign: {error}") from error


def read_at_most(stream: BinaryIO, source: str, largest: int = LARGEST_FILE) -> bytes:
    """All bytes of a stream. Counted while reading: what a file says of its size may be false."""
    content = stream.read(largest + 1)
    if len(content) > largest:
        raise UnreadableFile(f"{source}: larger than the {size_in_words(largest)} that are read")
    return content


def open_regular(path: Path) -> BinaryIO:
    """Open a regular file for reading, `OSError` if there is none."""
    return os.fdopen(_opened(path), "rb")


def read_start(path: Path, most: int) -> bytes:
    """The first bytes of a small regular file that is read again and again."""
    descriptor = _opened(path)
    try:
        content = os.read(descriptor, most)
        while len(content) < most and (more := os.read(descriptor, most - len(content))):
            content += more
        return content
    finally:
        os.close(descriptor)


def _opened(path: Path) -> int:
    """Without waiting, because a pipe without a writer would hold us for ever; and what was opened
    is looked at, not its name, which may stand for something else by now."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    except ValueError as error:  # a name with a null byte
        raise UnreadableFile(f"{str(path)!r}: cannot be the name of a file") from error
    kind = os.fstat(descriptor).st_mode
    if stat.S_ISREG(kind):
        return descriptor
    os.close(descriptor)
    found = next((word for is_one, word in _OTHERS.items() if is_one(kind)), "a device")
    raise UnreadableFile(f"{path}: cannot be read: {found}, expected a regular file")


def size_in_words(size: int) -> str:
    """Bytes in the largest unit that divides them."""
    for unit, factor in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if size >= factor and size % factor == 0:
            return f"{size // factor} {unit}"
    return f"{size} bytes"
