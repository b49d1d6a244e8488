"""What belongs to the caller and what to the custodian, and that every field says it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from voile.app.calls import HANDLERS
from voile.app.commands.explain import Explain, ExplanationSpec
from voile.app.commands.fields import (
    Command,
    InMemory,
    RenamedWarning,
    SetBy,
    field_extra,
    name_of,
)
from voile.app.commands.recommend import Audience
from voile.core.errors import InvalidInput, Refused

COMMANDS = list(HANDLERS)
CUSTODIANS = {"caller", "role", "account", "database", "signing_key", "replay_key", "policy"}
"""Who asks, who pays, and what signs: never for a caller to say."""


def is_path(annotation: Any) -> bool:
    return annotation is Path or Path in getattr(annotation, "__args__", ())


@pytest.mark.parametrize("kind", COMMANDS)
def test_every_field_is_described_and_marked(kind: type[Command]) -> None:
    for name, field in kind.model_fields.items():
        assert field.description, name
        assert SetBy(field_extra(field)["set_by"])


@pytest.mark.parametrize("kind", COMMANDS)
def test_a_caller_can_send_no_path_origin_key_account_or_name(kind: type[Command]) -> None:
    for name in kind.fields_set_by(SetBy.CALLER):
        assert name not in CUSTODIANS
        assert "origin" not in name
        assert "key" not in name
        assert not is_path(kind.model_fields[name].annotation), name


@pytest.mark.parametrize("kind", COMMANDS)
def test_a_request_with_a_custodian_field_is_refused(kind: type[Command]) -> None:
    for name in kind.fields_set_by(SetBy.CUSTODIAN):
        with pytest.raises(Refused, match=f"a request cannot set {name}$"):
            kind.from_request({name: "x"}, {})
    with pytest.raises(Refused, match=r"a request cannot set model$"):
        Explain.from_request({"data": [], "model": "x"}, {"model": "release"})


def test_a_request_is_completed_by_the_custodian() -> None:
    decided = {"model": "release", "caller": "key 7", "role": "reader", "level": "summary"}
    command = Explain.from_request({"data": [[1.0]], "purpose": "appeal"}, decided)
    assert (command.caller, command.purpose, command.level) == ("key 7", "appeal", "summary")
    with pytest.raises(Refused, match="cannot set level"):
        Explain.from_request({"level": "granular"}, decided)


def test_a_field_that_is_not_there_is_named() -> None:
    with pytest.raises(InvalidInput, match=r"workspace\.toml: epsilom: "):
        Explain.read({"model": "m", "epsilom": 1}, "workspace.toml")


@pytest.mark.parametrize("named", ["patients.csv", "/etc/passwd", "-", "", Path("patients.csv")])
def test_a_request_sends_rows_and_names_no_file(named: str | Path) -> None:
    with pytest.raises(Refused, match="data: send the rows themselves"):
        Explain.from_request({"data": named}, {"model": "release"})


class Sly(dict[str, Any]):
    """Shows one key, and holds more."""

    def __iter__(self) -> Any:
        return iter(["data"])


@pytest.mark.parametrize("body", [None, [], ["data"], {1: 2}])
def test_a_request_that_is_no_table_is_refused(body: Any) -> None:
    with pytest.raises(InvalidInput, match="expected fields by name"):
        Explain.from_request(body, {"model": "release"})


def test_a_request_shows_all_its_fields() -> None:
    with pytest.raises(Refused, match="cannot set caller"):
        Explain.from_request(Sly(data=[[1.0]], caller="eve"), {"model": "release"})


FORMER = {
    (kind, former, name)
    for kind in COMMANDS
    for name, field in kind.model_fields.items()
    for former in field_extra(field).get("formerly", ())
    if not former.startswith("--")
}


def test_these_names_were_others_before() -> None:
    assert {(former, name) for _, former, name in FORMER} == {
        ("output", "output_name"),
        ("fresh", "redraw"),
        ("to", "audience"),
        ("by_what", "group_by"),
        ("target", "label"),
    }


@pytest.mark.parametrize(("kind", "former", "name"), sorted(FORMER, key=str))
def test_a_former_name_is_read_as_the_new_one(kind: type[Command], former: str, name: str) -> None:
    field = kind.model_fields[name]
    value = True if field.annotation is bool else "others"
    needed: dict[str, Any] = {
        each: 1.0 if info.annotation is float else "x"
        for each, info in kind.model_fields.items()
        if info.is_required()
    }
    if "source" in needed:
        needed["source"] = ["x"]
    if "delta" in needed:
        needed["delta"] = 0.1
    now = kind(**needed, **{name: value})
    with pytest.warns(RenamedWarning, match=f"^{former} is now called {name};"):
        assert kind(**needed, **{former: value}) == now
    with pytest.warns(RenamedWarning, match=f"^{former} is now called {name};"):
        assert kind.read(needed | {former: value}) == now
    with pytest.raises(InvalidInput, match=f"{former} is now called {name}: give {name} only"):
        kind.read(needed | {former: value, name: value})


def test_a_request_may_use_a_former_name() -> None:
    now = Explain.from_request({"data": [[1.0]], "redraw": True}, {"model": "release"})
    with pytest.warns(RenamedWarning, match="redraw"):
        found = Explain.from_request({"data": [[1.0]], "fresh": True}, {"model": "release"})
    assert found == now
    with (
        pytest.warns(RenamedWarning, match="redraw"),
        pytest.raises(Refused, match="a request cannot set redraw"),
    ):
        Explain.from_request({"fresh": True}, {"model": "release", "redraw": False})


def test_the_user_herself_is_an_audience() -> None:
    with pytest.warns(RenamedWarning, match="'self'"):
        assert Audience("herself") is Audience.SELF


def test_an_error_shows_no_rows() -> None:
    with pytest.raises(InvalidInput, match=r"model: expected a text, found dict$"):
        Explain.read({"model": {"income": [71.5]}, "data": []})


def test_objects_are_handed_in_by_programs_only() -> None:
    """Not by a request, and not by a file, which holds texts, numbers and tables."""
    given = InMemory([[1.0]], "rows")
    assert ExplanationSpec.read({"model": given, "background": given}).background is given
    with pytest.raises(Refused, match="send the rows themselves"):
        Explain.from_request({"data": given}, {"model": "release"})
    for value in (3, ["m"], {"value": [[1.0]], "name": "rows"}, None):
        with pytest.raises(InvalidInput, match="model: expected a text"):
            ExplanationSpec.read({"model": value})
    with pytest.raises(InvalidInput, match="can name files only, and found <rows in memory>"):
        name_of(given)
    assert "1.0" not in repr(ExplanationSpec(model="m", background=given))


@pytest.mark.parametrize(
    ("stated", "message"),
    [
        ({"epsilon": 1.0}, "set one of epsilon, total_epsilon and noise"),
        ({"noise": 0.1}, "set one of epsilon, total_epsilon and noise"),
        ({"protect": "population"}, "total_epsilon is for a protected background"),
    ],
)
def test_a_total_is_for_a_protected_background(stated: dict[str, Any], message: str) -> None:
    whole = {"model": "m", "protect": "background", "total_epsilon": 0.5}
    assert ExplanationSpec.read(whole).total_epsilon == 0.5
    with pytest.raises(InvalidInput, match=message):
        ExplanationSpec.read({**whole, **stated})
