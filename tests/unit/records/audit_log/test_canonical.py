"""One value, one spelling."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from voile.records.audit_log.canonical import (
    LARGEST_INTEGER,
    Malformed,
    decode,
    decode_flat,
    encode,
    encode_flat,
)

NAMES = st.from_regex(r"[a-z][a-z0-9_]{0,8}", fullmatch=True)
SCALARS = st.text(st.characters(exclude_categories=["Cs"])) | st.integers(
    -LARGEST_INTEGER, LARGEST_INTEGER
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=6,
)


@given(VALUES)
def test_what_is_encoded_comes_back(value: object) -> None:
    content = encode(value)  # type: ignore[arg-type]
    assert decode(content) == value
    assert json.loads(content) == value


@given(st.dictionaries(NAMES, SCALARS, max_size=6))
def test_the_quick_way_for_flat_objects_writes_the_same(value: dict[str, str | int]) -> None:
    assert encode_flat(value) == encode(dict(value))


def test_the_quick_way_refuses_what_the_other_refuses() -> None:
    for bad in (2**53, "\ud800"):
        with pytest.raises(Malformed):
            encode_flat({"a": bad})


@given(st.dictionaries(NAMES, SCALARS, max_size=4))
def test_no_other_spelling_of_the_same_value_is_accepted(value: dict[str, str | int]) -> None:
    content = encode(dict(value))
    spellings = {
        json.dumps(value).encode(),
        json.dumps(value, indent=0).encode(),
        json.dumps(value, separators=(",", ":"), ensure_ascii=True).encode(),
        json.dumps(dict(reversed(value.items())), separators=(",", ":")).encode(),
        content + b"\n",
        b" " + content,
        b"\xef\xbb\xbf" + content,
    }
    for spelling in spellings - {content}:
        with pytest.raises(Malformed):
            decode(spelling)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"null",
        b"true",
        b"1.0",
        b"1e3",
        b"-0",
        b"01",
        b"NaN",
        b"Infinity",
        b'{"a":1.5}',
        b'{"a":null}',
        b'{"a":true}',
        b'{"b":1,"a":1}',
        b'{"a":1,"a":1}',
        b'{"a":1,"a":2}',
        b'{"A":1}',
        b'{"":1}',
        b'{"a b":1}',
        b'"\\u0041"',
        b'"\\/"',
        b'"\\ud800"',
        b"9007199254740992",
        b"9" * 5000,
        b"[" * 2000,
        b"[[[[[[[[[1]]]]]]]]]",
        b'"\xff"',
    ],
)
def test_what_is_not_canonical_is_refused(content: bytes) -> None:
    with pytest.raises(Malformed):
        decode(content)


@pytest.mark.parametrize("value", [1.0, None, True, b"x", ("a",), {1: "a"}, 2**53, "\ud800"])
def test_what_has_no_canonical_form_is_refused(value: object) -> None:
    with pytest.raises(Malformed):
        encode(value)  # type: ignore[arg-type]


@pytest.mark.parametrize("content", [b'"a"', b"1", b"[1]", b'{"a":[1]}', b'{"a":{"b":1}}'])
def test_a_flat_object_holds_strings_and_integers_only(content: bytes) -> None:
    assert decode(content) is not None
    with pytest.raises(Malformed):
        decode_flat(content)
