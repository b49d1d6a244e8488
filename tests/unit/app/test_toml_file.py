"""Settings in TOML: what is wrong is named by file, line and key."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import BaseModel, ConfigDict

from voile.app.toml_file import TomlFile, check_form, did_you_mean
from voile.core.errors import InvalidInput, Refused, UnreadableFile


class Part(BaseModel):
    model_config = ConfigDict(extra="forbid")
    size: int = 0


class Whole(BaseModel):
    model_config = ConfigDict(extra="forbid")
    parts: dict[str, Part] = {}
    listed: tuple[Part, ...] = ()
    one: Part = Part()


PATH = Path("settings.toml")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("part = 1", "settings.toml:1: part: there is no such key; did you mean 'parts'?"),
        ("\n[parts.a]\nsice = 1", "settings.toml:3: parts.a.sice: there is no such key; did"),
        ("[parts.size]\nsice = 1", "parts.size.sice: there is no such key; did you mean 'size'?"),
        ("[[listed]]\nsice = 1", "listed.0.sice: there is no such key; did you mean 'size'?"),
        (
            "[[listed]]\n[[listed]]\nsice = 1",
            "settings.toml:3: listed.1.sice: there is no such key; did",
        ),
        ("[one]\nsice = 1", "one.sice: there is no such key; did you mean 'size'?"),
        ("[one]\nqqqq = 1", "one.qqqq: there is no such key"),
        ('[one]\nsize = "x"', "settings.toml:2: one.size: expected a whole number, found 'x'"),
    ],
)
def test_the_nearest_key_of_the_same_table_is_told(text: str, said: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        TomlFile.parse(PATH, text).checked(Whole)
    assert said in str(refused.value)
    assert str(refused.value).endswith("?") == ("did" in said)


def test_every_problem_has_a_line_of_its_own() -> None:
    with pytest.raises(InvalidInput) as refused:
        TomlFile.parse(PATH, 'a = 1\n[one]\nsize = "x"').checked(Whole)
    assert len(str(refused.value).splitlines()) == 2


def test_of_very_many_problems_the_first_are_told() -> None:
    text = "".join(f"a{number} = 1\n" for number in range(500))
    with pytest.raises(InvalidInput) as refused:
        TomlFile.parse(PATH, text).checked(Whole)
    *told, last = str(refused.value).splitlines()
    assert len(told) == 20
    assert last == f"{PATH}: 480 more problems"


def test_a_table_can_be_completed_before_it_is_checked() -> None:
    file = TomlFile.parse(PATH, "[parts.a]\n")
    assert file.checked(Part, {"size": 3}, ("parts", "a")).size == 3
    with pytest.raises(InvalidInput, match=r"settings\.toml:1: parts\.a\.sice"):
        file.checked(Part, {"sice": 3}, ("parts", "a"))


def test_a_refusal_keeps_its_kind_and_gains_a_place() -> None:
    class Promise(BaseModel):
        def model_post_init(self, _: object) -> None:
            raise Refused("it cannot be kept")

    with pytest.raises(Refused, match=r"settings\.toml:1: parts\.a: it cannot be kept"):
        TomlFile.parse(PATH, "[parts.a]\n").checked(Promise, {}, ("parts", "a"))


def test_what_is_no_toml_is_told_with_its_line() -> None:
    with pytest.raises(UnreadableFile, match=r"settings\.toml: not TOML: .*line 2"):
        TomlFile.parse(PATH, "a = 1\na b")


def test_values_without_a_file_are_told_by_key() -> None:
    with pytest.raises(InvalidInput, match=r"^parts\.a\.sice: there is no such key; did you mean"):
        check_form(Whole, {"parts": {"a": {"sice": 1}}})
    assert did_you_mean("nothing near", ["size"]) == ""
