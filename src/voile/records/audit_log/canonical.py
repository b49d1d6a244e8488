"""One value, one sequence of bytes: what is hashed, signed or committed to.

The form is a subset of RFC 8785: UTF-8 JSON, keys sorted, no spaces, only strings and integers in
lists and objects. Floats are written as `float.hex()` strings by whoever owns the field, so that no
reader has to agree on how decimals are printed. Integers stay within 53 bits, which every JSON
reader keeps exactly.

Pure: standard library only. The verifier stands on it.
"""

from __future__ import annotations

import hashlib
import json
import re
import secrets
from dataclasses import dataclass, field
from json.encoder import encode_basestring as _quoted
from typing import Any, Final, NoReturn, Self, TypeAlias

Canonical: TypeAlias = str | int | list["Canonical"] | dict[str, "Canonical"]
Flat: TypeAlias = dict[str, str | int]
"""An object without lists or objects inside: what a record is."""

LARGEST_INTEGER: Final = 2**53 - 1
_ENCODER = json.JSONEncoder(
    ensure_ascii=False, allow_nan=False, sort_keys=True, separators=(",", ":")
)
_KEY = re.compile(r"[a-z][a-z0-9_]*")
_DEPTH = 8


class Malformed(ValueError):
    """Bytes that do not have the form they should have; says which form, and what was found."""


def encode(value: Canonical) -> bytes:
    """The canonical bytes of a value; `Malformed` if it has none."""
    _check(value, _DEPTH)
    return utf8(_ENCODER.encode(value))


def encode_flat(value: Flat) -> bytes:
    """The same bytes for an object of strings and integers with sound keys, in half the time."""
    parts = [f'"{key}":{written(value[key])}' for key in sorted(value)]
    return utf8("{" + ",".join(parts) + "}")


def text_around(value: Flat, still_open: frozenset[str]) -> list[str]:
    """What `encode_flat` writes around some items that are left open, sorted by their keys."""
    gap, texts, text = ",", [], "{"
    for key in sorted(value):
        text += f'"{key}":'
        if key in still_open:
            texts.append(text)
            text = gap
        else:
            text += written(value[key]) + gap
    return [*texts, text.removesuffix(gap) + "}"]


def decode(content: bytes) -> Canonical:
    """The value behind canonical bytes; anything that would not encode to the same is refused."""
    value = _parsed(content)
    if encode(value) != content:
        raise Malformed("expected canonical JSON (sorted keys, no spaces), found another spelling")
    return value


def decode_flat(content: bytes) -> Flat:
    """The same for an object that holds only strings and integers."""
    return _flat(decode(content))


def parse_flat(content: bytes) -> Flat:
    """An object of strings and integers in any spelling, for whoever writes it again to compare."""
    return _flat(_parsed(content))


def _parsed(content: bytes) -> Canonical:
    try:
        value: Canonical = json.loads(
            content.decode("utf-8"), parse_float=_no_number, parse_constant=_no_number
        )
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise Malformed(
            f"expected canonical JSON, found bytes that are not JSON: {error}"
        ) from None
    except ValueError as error:
        raise Malformed(f"expected canonical JSON: {error}") from None
    return value


def _flat(value: Canonical) -> Flat:
    if not isinstance(value, dict):
        raise Malformed(f"expected an object, found {type(value).__name__}")
    for key, item in value.items():
        if not isinstance(item, str | int):
            raise Malformed(f"expected a string or an integer in {key!r}, found a container")
    return value  # type: ignore[return-value]  # every item was looked at


def _check(value: Any, depth: int) -> None:
    if depth == 0:
        raise Malformed(f"expected at most {_DEPTH} levels of lists and objects, found more")
    if type(value) is str:
        pass  # half of a surrogate pair is noticed when it is encoded
    elif type(value) is int:
        _check_integer(value)
    elif type(value) is list:
        for item in value:
            _check(item, depth - 1)
    elif type(value) is dict:
        for key, item in value.items():
            if type(key) is not str or not _KEY.fullmatch(key):
                raise Malformed(f"expected a lower-case name as key, found {key!r}")
            _check(item, depth - 1)
    else:
        raise Malformed(f"expected strings and integers only, found {type(value).__name__}")


def written(value: str | int) -> str:
    """How one string or integer is written."""
    if type(value) is str:
        return _quoted(value)
    _check_integer(value)  # type: ignore[arg-type]  # strings are done
    return str(value)


def _check_integer(value: int) -> None:
    if abs(value) > LARGEST_INTEGER:
        raise Malformed(f"expected an integer of at most 53 bits, found {value.bit_length()}")


def utf8(text: str) -> bytes:
    """The bytes of a text that has some."""
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError:
        raise Malformed("expected text, found half of a surrogate pair") from None


def _no_number(text: str) -> NoReturn:
    raise Malformed(f"expected strings and integers only, found the number {text}")


# --- Commitments that hide: a record says *that* something was asked and answered, not *what* ----
# SHA-256 over a tag, a 32-byte random nonce and the canonical bytes. A plain hash would not do:
# rows of a small table can be hashed one after the other until one fits (twenty million take
# seconds). Without the nonce that search is hopeless; with it, in a receipt, a claimed question or
# answer is checked at once. Tag and nonce have fixed lengths, so no two inputs meet in one
# preimage.
#
# Pure: standard library only. The verifier stands on it.


NONCE_SIZE: Final = 32
_TAGS: Final = {"query": b"voile audit log v1 query \n", "answer": b"voile audit log v1 answer\n"}
COMMITTED: Final = tuple(_TAGS)
"""The fields of a record that hold commitments."""


def commitment_digest(name: str, nonce: bytes, content: bytes) -> bytes:
    """The commitment to `content` in the field `name`."""
    if name not in _TAGS or len(nonce) != NONCE_SIZE:
        raise Malformed(f"expected one of {COMMITTED} and a nonce of {NONCE_SIZE} bytes")
    return hashlib.sha256(_TAGS[name] + nonce + content).digest()


@dataclass(frozen=True)
class Commitment:
    """A commitment together with its nonce. The digest is public, the nonce goes to the asker."""

    name: str
    digest: bytes
    nonce: bytes = field(repr=False)

    @classmethod
    def to(cls, name: str, content: bytes) -> Self:
        """Commit to the canonical bytes of a query or an answer, with a fresh nonce."""
        nonce = secrets.token_bytes(NONCE_SIZE)
        return cls(name, commitment_digest(name, nonce, content), nonce)
