"""What options, a TOML table or a JSON body say, before any file is opened."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from voile.app.explain import ExplanationSpec
from voile.core.errors import InvalidInput, Refused
from voile.core.guarantee import RowPart
from voile.core.transparency import Level

TABLE = """
model = "risk.onnx"
schema = "loans.toml"
model_origin = "public"
protect = "explained-row"
account = "people"
background = "public.csv"
background_origin = "public"
noise = 0.05
output_range = [0, 1]
"""


def test_a_table_and_a_body_say_the_same() -> None:
    table = tomllib.loads(TABLE)
    body = json.loads(json.dumps(table))
    spec = ExplanationSpec.read(table)
    assert spec == ExplanationSpec.read(body)
    assert spec.protect is RowPart.EXPLAINED
    assert spec.schema_file == Path("loans.toml")
    assert spec.output_range == (0.0, 1.0)
    again = spec.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    assert ExplanationSpec.read(again) == spec


def test_it_never_changes() -> None:
    spec = ExplanationSpec(model="risk.onnx")
    with pytest.raises(ValidationError, match="frozen"):
        spec.level = Level.GRANULAR


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ({"modell": "risk.onnx"}, "modell: "),
        ({"level": "deep"}, "level: expected one of 'summary', 'aggregate'"),
        ({"protect": "me"}, "protect: expected one of 'training'"),
        ({"epsilon": "much"}, "epsilon: "),
        ({"epsilon": 1.0, "noise": 0.1}, "either epsilon or noise, not both"),
        ({"clusters": "groups.json"}, "with the level aggregate only, not detailed"),
        ({"background_origin": "public"}, "leave it out"),
        (
            {"protect": "background", "background": "b.csv", "background_origin": "public"},
            "leave it out",
        ),
        ({"model": object()}, "model: "),
    ],
)
def test_what_is_wrong_is_named_with_its_field_and_source(
    said: dict[str, Any], reason: str
) -> None:
    with pytest.raises(InvalidInput) as raised:
        ExplanationSpec.read({"model": "risk.onnx"} | said, "voile.toml")
    assert str(raised.value).startswith("voile.toml: ")
    assert reason in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("protect", [RowPart.POPULATION, RowPart.EXPLAINED])
def test_protected_rows_are_not_their_own_background_whatever_stands_in_them(
    protect: RowPart, tmp_path: Path
) -> None:
    rows, link = tmp_path / "rows.csv", tmp_path / "link.csv"
    rows.write_bytes(b"\x00 not a table")
    link.symlink_to(rows)
    said = {
        "model": "m",
        "protect": protect,
        "background": str(rows),
        "background_origin": "public",
    }
    for data in (str(rows), str(link), f"{tmp_path}/./rows.csv"):
        with pytest.raises(Refused, match="cannot also be the background"):
            ExplanationSpec.read(said | {"data": data})
    spec = ExplanationSpec.read(said | {"data": "others.csv"})
    with pytest.raises(Refused, match="cannot also be the background"):
        spec.check_apart(str(link))  # rows that are named later


def test_a_protected_background_is_not_explained_itself(tmp_path: Path) -> None:
    rows = tmp_path / "rows.csv"
    rows.write_bytes(b"\x00 not a table")
    said = {"model": "m", "protect": "background", "background": str(rows)}
    with pytest.raises(Refused, match="the protected background"):
        ExplanationSpec.read(said | {"data": f"{tmp_path}/./rows.csv"})
    with pytest.raises(Refused, match="the protected background"):
        ExplanationSpec.read(said).check_apart(str(rows))


def test_a_role_that_may_not_see_a_level_is_refused() -> None:
    with pytest.raises(Refused):
        ExplanationSpec.read({"model": "m", "level": "granular", "role": "reader"})
