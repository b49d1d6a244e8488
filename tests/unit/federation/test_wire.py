"""Every message as bytes and back; what does not fit is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from voile.core.errors import InvalidInput
from voile.federation import Closed, Closing, Instruction, Joined, Joining, Update
from voile.federation.messages import Advertised, SecureInstruction
from voile.federation.secure_aggregation import SignedMessage
from voile.federation.secure_aggregation.signed import Attempt, AttemptStep, decode, encode
from voile.federation.wire import DeclinedMessage, from_bytes, to_bytes

ARRAYS = {
    "b": np.arange(6, dtype=np.float32).reshape(2, 3),
    "a": np.array(0.5, dtype=np.float32),
    "none": np.zeros((0, 4), dtype=np.float32),
}
DOUBLE: Any = {"w": np.zeros(2)}
STEP = SignedMessage(Attempt("aa", "pull", 2, "x1"), AttemptStep.MASK, "ash", "", b"body", b"s")
STATED = Update("ash", "pull", 2, {}, "{}", "acc", None, True, "aa")
MESSAGES: list[Any] = [
    Joining("aa"),
    Joined("ash", "aa"),
    Instruction("pull", 2, ARRAYS, {"fixed/w": ARRAYS["b"]}, "aa"),
    Update("ash", "pull", 2, ARRAYS, "{}", None, "a note", False, "aa"),
    Closing("aa"),
    Closed("ash", "aa", {"checkpoint": b"\x00signed", "records": b""}),
    SecureInstruction(Instruction("pull", 1, ARRAYS), "x1", ("ash", "elm"), "0" * 64, b"\x01\x02"),
    Advertised(STATED, STEP),
    STEP,
    DeclinedMessage("its cap", True),
    DeclinedMessage(),
]


def same(one: Any, other: Any) -> bool:
    if isinstance(one, np.ndarray):
        return one.dtype == other.dtype and np.array_equal(one, other)
    if isinstance(one, dict):
        return set(one) == set(other) and all(same(one[key], other[key]) for key in one)
    if hasattr(one, "__dataclass_fields__"):
        return type(one) is type(other) and same(vars(one), vars(other))
    return type(one) is type(other) and bool(one == other)


@pytest.mark.parametrize("message", MESSAGES, ids=lambda each: type(each).__name__)
def test_what_is_written_is_read(message: Any) -> None:
    assert same(from_bytes(to_bytes(message)), message)


def headers(message: Any) -> tuple[dict[str, Any], list[bytes]]:
    _, text, *blobs = decode(to_bytes(message))
    return json.loads(text), blobs


def written(header: Any, blobs: list[bytes], form: bytes = b"voile wire 1") -> bytes:
    return encode([form, json.dumps(header).encode(), *blobs])


@pytest.mark.parametrize("message", MESSAGES, ids=lambda each: type(each).__name__)
@pytest.mark.parametrize("field", ["seed", "data", "schema", "noise", "epsilon"])
def test_no_message_has_room_for_anything_else(message: Any, field: str) -> None:
    header, blobs = headers(message)
    with pytest.raises(InvalidInput, match=field):
        from_bytes(written({**header, field: 7}, blobs))


@pytest.mark.parametrize("message", MESSAGES, ids=lambda each: type(each).__name__)
def test_every_field_is_needed_and_has_its_type(message: Any) -> None:
    header, blobs = headers(message)
    for name in header:
        with pytest.raises(InvalidInput):
            from_bytes(written({key: header[key] for key in header if key != name}, blobs))
        with pytest.raises(InvalidInput):
            from_bytes(written({**header, name: 1.5}, blobs))


def test_nested_messages_have_no_more_room_either() -> None:
    header, blobs = headers(MESSAGES[6])
    header["instruction"]["seed"] = 1
    with pytest.raises(InvalidInput, match="seed"):
        from_bytes(written(header, blobs))


@pytest.mark.parametrize(
    "change",
    [
        lambda header, blobs: (header, blobs[:-1]),
        lambda header, blobs: (header, [*blobs, b""]),
        lambda header, blobs: (header, [blobs[0] + b"\0" * 4, *blobs[1:]]),
        lambda header, blobs: (header | {"arrays": {"a": [-1]}, "given": {}}, blobs[:1]),
        lambda header, blobs: (header | {"arrays": {"a": "shape"}, "given": {}}, blobs[:1]),
        lambda header, blobs: (header | {"round": 0}, blobs),
        lambda header, blobs: (header | {"round": True}, blobs),
        lambda _, blobs: ([], blobs),
    ],
)
def test_arrays_are_as_long_as_their_shapes_say(change: Any) -> None:
    header, blobs = headers(MESSAGES[2])
    with pytest.raises(InvalidInput):
        from_bytes(written(*change(header, blobs)))


def test_values_that_are_not_finite_are_no_instruction() -> None:
    header, blobs = headers(Instruction("pull", 1, {"a": ARRAYS["a"]}))
    with pytest.raises(InvalidInput, match="finite"):
        from_bytes(written(header, [np.array(np.nan, dtype="<f4").tobytes()]))
    assert blobs


def test_another_form_is_not_read() -> None:
    header, blobs = headers(Joining("aa"))
    with pytest.raises(InvalidInput, match="form"):
        from_bytes(written(header, blobs, b"voile wire 2"))


@given(st.binary(max_size=200))
def test_no_bytes_raise_anything_else(content: bytes) -> None:
    for attempt in (content, encode([b"voile wire 1", content]), to_bytes(STEP)[: len(content)]):
        with pytest.raises(InvalidInput):
            from_bytes(attempt)


@pytest.mark.parametrize("unsendable", [None, "text", replace(STATED, arrays=DOUBLE)], ids=str)
def test_only_messages_are_sent(unsendable: Any) -> None:
    with pytest.raises(InvalidInput):
        to_bytes(unsendable)


@pytest.mark.parametrize(
    "shape", [[1] * 65, [0, 2**39, 2**39], [2**39] * 60_000], ids=["deep", "too big", "long"]
)
def test_a_shape_that_no_array_has_is_refused(shape: list[int]) -> None:
    """Whatever else it raised would end the server that reads it."""
    header, _ = headers(replace(MESSAGES[3], arrays={}))
    text = json.dumps({**header, "arrays": {"w": shape}}).encode()
    blob = bytes(4 if shape == [1] * 65 else 0)
    with pytest.raises(InvalidInput, match="is a list of sizes"):
        from_bytes(encode([b"voile wire 1", text, blob]))
