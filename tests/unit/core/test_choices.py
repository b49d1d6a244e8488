"""A tag names one of several kinds; anything else is refused, with the list of tags."""

from __future__ import annotations

import math
from enum import StrEnum
from importlib.metadata import EntryPoint, EntryPoints
from typing import Any

import pytest

from tests.support.toys import install
from voile.core import choices
from voile.core.choices import ExtensibleKinds, chosen, member
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


# --- kinds of other packages ----------------------------------------------------------------------


OPEN = ExtensibleKinds({"own": 1}, "voile.numbers")


def test_a_package_adds_a_kind_by_an_entry_point(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, "voile.numbers", tau="math:tau", own="math:pi")
    assert chosen(OPEN, "tau") == math.tau
    assert chosen(OPEN, "own") == 1, "nobody replaces what is ours"
    assert list(OPEN) == ["own", "tau"]
    assert len(OPEN) == 2
    with pytest.raises(InvalidInput, match=r"kind must be one of 'own', 'tau', found 'e'"):
        chosen(OPEN, "e", "kind")


def test_nothing_is_looked_up_for_a_kind_of_our_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choices, "entry_points", lambda **_: pytest.fail("looked up"))
    assert chosen(OPEN, "own") == 1


def test_entry_points_of_other_groups_are_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, "voile.letters", tau="math:tau")
    assert list(OPEN) == ["own"]


@pytest.mark.parametrize("value", ["no_such_module:kind", "math:no_such_name"])
def test_a_kind_that_cannot_be_loaded_says_so(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    install(monkeypatch, "voile.numbers", tau=value)
    with pytest.raises(InvalidInput, match=f"'tau' .{value}. cannot be loaded"):
        chosen(OPEN, "tau")


def test_two_packages_with_one_name_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    both = [EntryPoint("tau", f"math:{name}", "voile.numbers") for name in ("tau", "pi")]
    monkeypatch.setattr(choices, "entry_points", lambda **_: EntryPoints(both))
    with pytest.raises(InvalidInput, match="several packages"):
        chosen(OPEN, "tau")


def test_a_list_that_only_packages_fill_says_that_it_is_empty() -> None:
    with pytest.raises(InvalidInput, match=r"none is installed.*found 'e'"):
        chosen(ExtensibleKinds({}, "voile.numbers"), "e")
