"""Sound bytes made unsound, in ways that bytes, text and structures get broken.

Everything is drawn from the generator that is handed in: one seed, one input.
"""

from __future__ import annotations

import io
import json
import random
import zipfile
from collections.abc import Callable
from typing import Any

Mutation = Callable[[bytes, random.Random], bytes]

TOKENS: tuple[bytes, ...] = (
    b"", b"0", b"-1", b"1e400", b"-1e400", b"NaN", b"Infinity", b"null", b"true", b"[]", b"{}",
    b'""', b"'", b'"', b"\\", b"\x00", b"\r", b"\n", b"\xff\xfe", b"\xe2\x80\xa8", b"\xed\xa0\x80",
    b"9" * 30, b"9" * 5000, b"../../etc/passwd", b"/dev/zero", b"[" * 3000, b"{\"a\":" * 3000,
    b"2147483648", b"18446744073709551616", b"-0.0", b"1_0", "٣".encode(), b"=", b",", b"\t",
)  # fmt: skip
VALUES: tuple[Any, ...] = (
    None, True, 0, -1, 1.5, 1e308, float("nan"), float("inf"), 10**30, "", "x", "\x00", "\ud800",
    "../x", [], [[]], {}, {"": None}, [1, "a", None], "9" * 300,
)  # fmt: skip


def bytes_changed(content: bytes, chance: random.Random) -> bytes:
    """A few places flipped, taken out, doubled, overwritten or filled with a token."""
    found = bytearray(content)
    for _ in range(chance.choice((1, 1, 1, 2, 5, 20))):
        place = chance.randrange(len(found) + 1)
        length = chance.choice((1, 1, 2, 4, 8, 64))
        kind = chance.randrange(6)
        if kind == 0:
            found[place : place + 1] = bytes([chance.randrange(256)])
        elif kind == 1:
            del found[place : place + length]
        elif kind == 2:
            found[place:place] = found[place : place + length]
        elif kind == 3:
            found[place : place + length] = chance.randbytes(length)
        elif kind == 4:
            found[place:place] = chance.choice(TOKENS)
        else:
            del found[place:]
    return bytes(found)


def words_changed(content: bytes, chance: random.Random) -> bytes:
    """Text in which words and numbers are replaced, lines lost, doubled and exchanged."""
    lines = content.split(b"\n")
    place = chance.randrange(len(lines))
    kind = chance.randrange(4)
    if kind == 0:
        lines.pop(place)
    elif kind == 1:
        lines.insert(chance.randrange(len(lines)), lines[place])
    elif kind == 2:
        words = lines[place].split(b" ")
        words[chance.randrange(len(words))] = chance.choice(TOKENS)
        lines[place] = b" ".join(words)
    else:
        head, _, _ = lines[place].partition(b"=")
        lines[place] = head + b"= " + chance.choice(TOKENS)
    return b"\n".join(lines)


def json_changed(content: bytes, chance: random.Random) -> bytes:
    """JSON in which one value is another one, is gone, or is somewhere else."""
    root = {"": json.loads(content)}
    holder: Any = root
    key: Any = ""
    while isinstance(holder[key], dict | list) and holder[key] and chance.random() < 0.85:
        holder = holder[key]
        key = chance.choice(list(holder) if isinstance(holder, dict) else range(len(holder)))
    kind = chance.randrange(4)
    if kind == 0 and holder is not root:
        del holder[key]
    elif kind == 1 and isinstance(holder, dict) and holder is not root:
        holder[chance.choice(("", "x", "epsilon", "/etc/passwd", "\ud800"))] = chance.choice(VALUES)
    else:
        holder[key] = chance.choice(VALUES)
    return json.dumps(root[""]).encode()


def zip_changed(content: bytes, chance: random.Random) -> bytes:
    """A zip in which one member is broken and the checksums are right."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = {info.filename: archive.read(info) for info in archive.infolist()}
    name = chance.choice(list(members))
    change = json_changed if name.endswith(".json") and chance.random() < 0.7 else header_changed
    members[name] = change(members[name], chance)
    if chance.random() < 0.1:
        members[chance.choice(("../x", "x.npy", "a" * 300))] = b"x"
    if chance.random() < 0.1:
        members.pop(name, None)
    buffer = io.BytesIO()
    kind = zipfile.ZIP_DEFLATED if chance.random() < 0.05 else zipfile.ZIP_STORED
    with zipfile.ZipFile(buffer, "w", kind) as archive:
        for member, text in members.items():
            archive.writestr(member, text)
    return buffer.getvalue()


def header_changed(content: bytes, chance: random.Random) -> bytes:
    """The first hundred bytes broken, where the header of an array lies."""
    return bytes_changed(content[:128], chance) + content[128:]


def safetensors_changed(content: bytes, chance: random.Random) -> bytes:
    """A header that is JSON of the right length, with another value in it."""
    size = int.from_bytes(content[:8], "little")
    head = json.loads(content[8 : 8 + size])
    said = json.loads(head["__metadata__"]["voile"])
    said.pop("checksum", None)  # else nothing behind it would be tried
    head["__metadata__"]["voile"] = json.dumps(said)
    if chance.random() < 0.5:
        label = json_changed(head["__metadata__"]["voile"].encode(), chance)
        head["__metadata__"]["voile"] = label.decode()
        text = json.dumps(head).encode()
    else:
        text = json_changed(json.dumps(head).encode(), chance)
    rest = content[8 + size :]
    if chance.random() < 0.1:
        rest = bytes_changed(rest, chance)
    return len(text).to_bytes(8, "little") + text + rest


def cut(content: bytes, chance: random.Random) -> bytes:
    return content[: chance.randrange(len(content) + 1)]


def nonsense(_: bytes, chance: random.Random) -> bytes:
    return b"".join(chance.choice(TOKENS) for _ in range(chance.randrange(6)))


EVERYWHERE: tuple[Mutation, ...] = (bytes_changed, bytes_changed, cut, nonsense)
