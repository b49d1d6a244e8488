"""The config of a federation: what it takes, and what it says about mistakes."""

from __future__ import annotations

from pathlib import Path

import pytest

from voile.core.errors import InvalidInput, UnreadableFile
from voile.core.guarantee import Relation
from voile.workflows.federate.config import FederationConfig, read_config

GOOD = """\
name = "study v1"
schema = "schema.toml"

[privacy]
epsilon = 2
delta = 1e-5

[[clients]]
name = "north"
data = "north.csv"
rows = 100

[[held_out]]
name = "public"
data = "public.csv"
"""


def read(folder: Path, text: str) -> FederationConfig:
    path = folder / "federation.toml"
    path.write_text(text)
    return read_config(path)


def test_defaults_are_filled_in_and_paths_lie_beside_the_file(tmp_path: Path) -> None:
    config = read(tmp_path, GOOD)
    assert config.privacy.relation is Relation.BLANK_ONE
    assert config.training.rounds == 10
    assert config.output == tmp_path / "output"
    assert config.clients[0].data == tmp_path / "north.csv"
    assert config.held_out[0].data == tmp_path / "public.csv"
    assert config.reference is None
    assert read(tmp_path, 'reference = "r.csv"\n' + GOOD).reference == tmp_path / "r.csv"


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("epsilon = 2", "epsilon = 0", r":5: privacy\.epsilon: .*greater than 0"),
        ("epsilon = 2", "epsilon = inf", r"privacy\.epsilon"),
        ("delta = 1e-5", "delta = 1.0", r":6: privacy\.delta"),
        ("delta = 1e-5", "", r"privacy\.delta: Field required"),
        ("delta = 1e-5", "delta = 1e-5\nsigma = 1", r"privacy\.sigma: there is no such key"),
        ("delta = 1e-5", 'delta = 1e-5\nrelation = "any"', r"privacy\.relation"),
        ("delta = 1e-5", 'delta = 1e-5\nrelation = "add or remove one"', "sizes are public"),
        ('name = "north"', 'name = "server"', "no party may be called"),
        ("rows = 100", "rows = -1", r"clients\.0\.rows"),
        ('name = "public"', 'name = "north"', r"document: .*found twice: \['north'\]"),
        ('name = "north"', 'name = "../x"', r"clients\.0\.name"),
        ("[privacy]", "[training]\nrounds=2\nparticipations=3\n[privacy]", "cannot exceed rounds"),
    ],
)
def test_mistakes_name_line_and_field(
    tmp_path: Path, before: str, after: str, message: str
) -> None:
    assert before in GOOD
    with pytest.raises(InvalidInput, match=message):
        read(tmp_path, GOOD.replace(before, after))


def test_files_that_are_no_config(tmp_path: Path) -> None:
    with pytest.raises(UnreadableFile, match="not TOML"):
        read(tmp_path, "name = ")
    with pytest.raises(UnreadableFile, match="cannot be read"):
        read_config(tmp_path / "missing.toml")
