"""A tag names one of several kinds; anything else is refused, with the list of tags."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import pytest

from voile.core.choices import chosen, member
from voile.core.errors import InvalidInput

KINDS = {"round": float, "whole": int}


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


def test_a_tag_names_its_kind() -> None:
    assert chosen(KINDS, "whole") is int
    assert chosen({("a", 1): "first"}, ("a", 1)) == "first"


@pytest.mark.parametrize("tag", ["square", "", None, 3, ["whole"], {"whole": 1}])
def test_another_tag_is_refused(tag: object) -> None:
    with pytest.raises(InvalidInput) as caught:
        chosen(KINDS, tag, "kind")
    assert str(caught.value) == f"kind must be one of 'round', 'whole', found {tag!r}"
    assert caught.value.__cause__ is None


def test_without_a_field_and_with_a_long_tag() -> None:
    with pytest.raises(InvalidInput) as caught:
        chosen(KINDS, "x" * 500)
    assert str(caught.value) == f"expected one of 'round', 'whole', found '{'x' * 79}"


def test_a_member_of_an_enumeration() -> None:
    assert member(Colour, "red") is member(Colour, Colour.RED) is Colour.RED


@pytest.mark.parametrize("value", ["green", None, ["red"]])
def test_another_value_is_refused(value: Any) -> None:
    with pytest.raises(InvalidInput) as caught:
        member(Colour, value, "colour")
    assert str(caught.value) == f"colour must be one of 'red', 'blue', found {value!r}"
