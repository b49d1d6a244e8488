"""Messages as bytes: the one form in which they leave a machine.

A message is a list of parts, each with its length before it: the name of the form, a header in
JSON, and blobs (arrays and files) in the order in which the header names them. Every kind has its
fields and no other. Nothing is executed when one is read, and whatever does not fit is
`InvalidInput`: there is no room in it for a seed, a path, a schema, a noise scale or a budget.

Compatibility promise: the form has a version, and a node reads its own only.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any, Final, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from voile.core.choices import chosen
from voile.core.errors import InvalidInput, Refused
from voile.federation.arrays import Array
from voile.federation.messages import (
    LONGEST_STATEMENT,
    Advertised,
    Closed,
    Closing,
    Instruction,
    Joined,
    Joining,
    SecureInstruction,
    Update,
    check_round,
)
from voile.federation.secure_aggregation import SignedMessage
from voile.federation.secure_aggregation.signed import Attempt, AttemptStep, decode, encode

_FORM: Final = b"voile wire 1"
_LONGEST_HEADER: Final = 1 << 20
_MOST_DIMENSIONS: Final = 32
_WHOLE: Final = "int64"
_LARGEST: Final = 1 << 40
"""Whatever a message says, NumPy has an array of that shape."""


@dataclass(frozen=True)
class DeclinedMessage:
    """Node to server, instead of an answer.

    Args:
        reason: why it refuses; empty if it failed. Only refusals are told in words: any other
            message may quote a protected row.
        begun_before: whether an earlier attempt of the round is the reason (`BegunBefore`).
    """

    reason: str = ""
    begun_before: bool = False


Wired: TypeAlias = (
    Joining | Instruction | Closing | SecureInstruction | SignedMessage
    | Joined | Update | Closed | Advertised | DeclinedMessage
)  # fmt: skip
Header: TypeAlias = dict[str, Any]
Kept = TypeVar("Kept")


def to_bytes(message: object) -> bytes:
    """`InvalidInput` for anything but a message of the closed list."""
    for kind, (form, write, _) in _KINDS.items():
        if type(message) is form:
            blobs: list[bytes] = []
            header = {"kind": kind, **write(message, blobs)}
            return encode([_FORM, json.dumps(header, sort_keys=True).encode(), *blobs])
    raise InvalidInput(f"{type(message).__name__} is no message that could be sent")


def from_bytes(content: bytes) -> Wired:
    """The inverse of `to_bytes`; `InvalidInput` for anything else."""
    try:
        form, text, *blobs = decode(content)
        header = json.loads(text) if len(text) <= _LONGEST_HEADER else None
    except (Refused, ValueError, RecursionError) as error:
        raise InvalidInput("these bytes are no message") from error
    if form != _FORM or not isinstance(header, dict):
        raise InvalidInput(f"expected a message of the form {_FORM.decode()!r}, found another one")
    kind = header.pop("kind", None)
    _, _, build = chosen(_KINDS, kind, "the kind of a message")
    read = _Fields(kind, header, blobs)
    message: Wired = build(read)
    read.check_used_up()
    if blobs:
        raise InvalidInput(f"a message of the kind {kind!r} came with more than its header names")
    return message


class _Fields:
    """Takes the fields of a header one by one, each with its type; nothing may be left over."""

    def __init__(self, kind: str, header: Header, blobs: list[bytes]) -> None:
        self._kind, self._header, self._blobs = kind, header, blobs

    def take(self, name: str, form: type[Kept]) -> Kept:
        if name not in self._header:
            raise InvalidInput(f"a message of the kind {self._kind!r} lacks {name!r}")
        value = self._header.pop(name)
        if type(value) is not form:
            raise InvalidInput(
                f"{name!r} of a message of the kind {self._kind!r} must be {form.__name__}, found "
                f"{type(value).__name__}"
            )
        return value

    def text_or_none(self, name: str) -> str | None:
        if self._header.get(name, "") is None:
            return self.take(name, type(None))
        return self.take(name, str)

    def within(self, name: str) -> _Fields:
        return _Fields(f"{self._kind}: {name}", self.take(name, dict), self._blobs)

    def hexadecimal(self, name: str) -> bytes:
        try:
            return bytes.fromhex(self.take(name, str))
        except ValueError:
            raise InvalidInput(f"{name!r} must be hexadecimal") from None

    def blob(self) -> bytes:
        if not self._blobs:
            raise InvalidInput(f"a message of the kind {self._kind!r} is cut off")
        return self._blobs.pop(0)

    def arrays(self, name: str) -> dict[str, Array]:
        return {each: self._array(each, shape) for each, shape in self.take(name, dict).items()}

    def _array(self, name: str, shape: Any) -> Array:
        whole = isinstance(shape, dict) and set(shape) == {_WHOLE}
        listed = shape[_WHOLE] if whole else shape
        sizes: list[Any] = listed if isinstance(listed, list) else [None]
        if (
            len(sizes) > _MOST_DIMENSIONS
            or not all(type(size) is int and 0 <= size < _LARGEST for size in sizes)
            or prod(max(size, 1) for size in sizes) >= _LARGEST
        ):
            raise InvalidInput(f"the shape of {name!r:.60} is a list of sizes, found {shape!r:.60}")
        content = self.blob()
        if len(content) != (8 if whole else 4) * prod(sizes):
            raise InvalidInput(f"{name!r:.60} has another number of values than its shape says")
        if whole:
            return np.frombuffer(content, dtype="<i8").astype(np.int64).reshape(sizes)
        return np.frombuffer(content, dtype="<f4").astype(np.float32).reshape(sizes)

    def check_used_up(self) -> None:
        if self._header:
            unknown = sorted(str(name)[:40] for name in self._header)[:5]
            raise InvalidInput(f"a message of the kind {self._kind!r} has no field {unknown}")

    def closed(self, make: Callable[[_Fields], Kept]) -> Kept:
        """What lies within a field, with nothing left over."""
        found = make(self)
        self.check_used_up()
        return found


# --- each kind, written and read -------------------------------------------------------------


def _shapes(arrays: Mapping[str, Any], blobs: list[bytes]) -> Header:
    for name, array in sorted(arrays.items()):  # the order of a header's names
        if type(array) is not np.ndarray or array.dtype not in (np.float32, np.int64):
            raise InvalidInput(
                f"{name!r:.60} is no float32 array, and none of whole numbers: it cannot be sent"
            )
        blobs.append(array.astype("<i8" if array.dtype == np.int64 else "<f4").tobytes())
    return {name: _shape(array) for name, array in arrays.items()}


def _shape(array: NDArray[Any]) -> list[int] | dict[str, list[int]]:
    """A list of sizes says float32, as it always did; whole numbers are named."""
    sizes = list(array.shape)
    return {_WHOLE: sizes} if array.dtype == np.int64 else sizes


def _write_instruction(message: Instruction, blobs: list[bytes]) -> Header:
    arrays = {name: _shapes(getattr(message, name), blobs) for name in ("arrays", "given")}
    facts = {"stage": message.stage, "round": message.round, "agreement": message.agreement}
    return {**facts, **arrays}


def _read_instruction(read: _Fields) -> Instruction:
    return Instruction(
        read.take("stage", str),
        read.take("round", int),
        read.arrays("arrays"),
        read.arrays("given"),
        read.take("agreement", str),
    )


_STATED: Final = ("client", "stage", "round", "event", "account", "note", "resent", "agreement")


def _write_update(message: Update, blobs: list[bytes]) -> Header:
    stated = {name: getattr(message, name) for name in _STATED}
    return {**stated, "arrays": _shapes(message.arrays, blobs)}


def _read_update(read: _Fields) -> Update:
    return Update(
        read.take("client", str),
        read.take("stage", str),
        read.take("round", int),
        read.arrays("arrays"),
        read.take("event", str),
        read.text_or_none("account"),
        read.text_or_none("note"),
        read.take("resent", bool),
        read.take("agreement", str),
    )


def _write_closed(message: Closed, blobs: list[bytes]) -> Header:
    names = sorted(message.files)
    blobs += [message.files[name] for name in names]
    return {"client": message.client, "agreement": message.agreement, "files": names}


def _read_closed(read: _Fields) -> Closed:
    names = read.take("files", list)
    if not all(type(name) is str for name in names):
        raise InvalidInput("the files of a log have names")
    files = {name: read.blob() for name in names}
    return Closed(read.take("client", str), read.take("agreement", str), files)


def _write_secure(message: SecureInstruction, blobs: list[bytes]) -> Header:
    return {
        "instruction": _write_instruction(message.instruction, blobs),
        "attempt": message.attempt,
        "asked": list(message.asked),
        "previous": message.previous,
        "signature": message.signature.hex(),
    }


def _read_secure(read: _Fields) -> SecureInstruction:
    asked = read.take("asked", list)
    if not all(type(name) is str for name in asked):
        raise InvalidInput("those who are asked are named")
    return SecureInstruction(
        read.within("instruction").closed(_read_instruction),
        read.take("attempt", str),
        tuple(asked),
        read.take("previous", str),
        read.hexadecimal("signature"),
    )


def _write_signed(message: SignedMessage, blobs: list[bytes]) -> Header:
    blobs.append(message.body)
    return {
        "attempt": vars(message.attempt),
        "step": str(message.step),
        "sender": message.sender,
        "recipient": message.recipient,
        "signature": message.signature.hex(),
    }


def _read_signed(read: _Fields) -> SignedMessage:
    step = read.take("step", str)
    if step not in set(AttemptStep):
        raise InvalidInput(f"a secure sum has no step {step!r:.60}")
    return SignedMessage(
        read.within("attempt").closed(_read_attempt),
        AttemptStep(step),
        read.take("sender", str),
        read.take("recipient", str),
        read.blob(),
        read.hexadecimal("signature"),
    )


def _read_attempt(read: _Fields) -> Attempt:
    number = read.take("round", int)
    check_round(number)
    texts = [read.take(name, str) for name in ("agreement", "stage", "name")]
    return Attempt(texts[0], texts[1], number, texts[2])


def _write_advertised(message: Advertised, blobs: list[bytes]) -> Header:
    return {
        "statement": _write_update(message.statement, blobs),
        "advert": _write_signed(message.advert, blobs),
    }


def _read_advertised(read: _Fields) -> Advertised:
    statement = read.within("statement").closed(_read_update)
    return Advertised(statement, read.within("advert").closed(_read_signed))


def _read_declined(read: _Fields) -> DeclinedMessage:
    reason = read.take("reason", str)
    if len(reason) > LONGEST_STATEMENT or not (reason.isprintable() or reason == ""):
        raise InvalidInput("a reason is one printable line of moderate length")
    return DeclinedMessage(reason, read.take("begun_before", bool))


def _plain(message: object, _: list[bytes]) -> Header:
    return dict(vars(message))


_KINDS: Final[Mapping[str, tuple[type[Any], Callable[..., Header], Callable[[_Fields], Any]]]] = {
    "joining": (Joining, _plain, lambda read: Joining(read.take("agreement", str))),
    "joined": (
        Joined,
        _plain,
        lambda read: Joined(read.take("client", str), read.take("agreement", str)),
    ),
    "instruction": (Instruction, _write_instruction, _read_instruction),
    "update": (Update, _write_update, _read_update),
    "closing": (Closing, _plain, lambda read: Closing(read.take("agreement", str))),
    "closed": (Closed, _write_closed, _read_closed),
    "secure instruction": (SecureInstruction, _write_secure, _read_secure),
    "advertised": (Advertised, _write_advertised, _read_advertised),
    "signed": (SignedMessage, _write_signed, _read_signed),
    "declined": (DeclinedMessage, _plain, _read_declined),
}
