"""The config of a federation: what it takes, and what it says about mistakes."""

from __future__ import annotations

from pathlib import Path

import pytest

from voile.app.federate import FederationAgreement, read_agreement, read_job
from voile.app.federate.starting import split
from voile.core.errors import InvalidInput, UnreadableFile
from voile.core.guarantee import Relation

SCHEMA = """\
name = "two"

[label]
name = "ill"
categories = ["no", "yes"]

[features.age]
kind = "continuous"
bounds = [0, 100]
"""
SINGLE = """\
name = "study v1"
schema = "schema.toml"

[privacy]
epsilon = 2
delta = 1e-5

[[clients]]
name = "north"
data = "north.csv"
rows = 3

[[held_out]]
name = "public"
data = "public.csv"
"""


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """The folder of a federation of one party."""
    (tmp_path / "schema.toml").write_text(SCHEMA)
    for name in ("north", "public"):
        (tmp_path / f"{name}.csv").write_text("age,ill\n40,no\n50,yes\n60,no\n")
    single = tmp_path / "single.toml"
    single.write_text(SINGLE)
    split(single, tmp_path)
    return tmp_path


def read(folder: Path, before: str = "", after: str = "") -> FederationAgreement:
    path = folder / "federation.toml"
    text = path.read_text()
    assert before in text
    path.write_text(text.replace(before, after))
    return read_agreement(path)


def test_defaults_are_filled_in_and_paths_lie_beside_the_file(
    files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir("/")
    job = read_job(files / "federation.toml")
    assert job.agreement.protected.relation is Relation.BLANK_ONE
    assert (job.agreement.rounds, job.agreement.sizes) == (10, {"north": 3})
    assert job.server.folder == files / "output"
    assert [(party.name, len(party.records)) for party in job.parties] == [("north", 3)]
    assert job.parties[0].folder == files / "nodes" / "north"


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("epsilon = 2.0", "epsilon = 0", r":14: privacy\.epsilon: .*number above 0, found 0"),
        ("epsilon = 2.0", "epsilon = inf", r"privacy\.epsilon"),
        ("delta = 1e-05", "delta = 1.0", r":15: privacy\.delta"),
        ("delta = 1e-05", "", r"privacy\.delta: is missing"),
        ("delta = 1e-05", "delta = 1e-5\nsigma = 1 #", r"privacy\.sigma: there is no such key"),
        ('"zero-out"  #', '"any"  #', r"privacy\.relation: expected one of 'zero-out'"),
        ('"zero-out"  #', '"add or remove one"  #', "sizes are public"),
        ('name = "north"', 'name = "server"', "no party may be called"),
        ("rows = 3 ", "rows = -1 ", r"parties\.0\.rows"),
        ('name = "north"', 'name = "../x"', r"parties\.0\.name"),
        ("rounds = 10", "rounds = 2\nparticipations = 3", "cannot exceed rounds"),
        ("\nkey = ", '\nkey = "x" #', r"parties\.0\.key"),
        ("\nkey = ", "\n# ", r"parties\.0\.key: is missing"),
        ("server_key = ", 'server_key = "x" #', "server_key: expected"),
        ("[privacy]", 'data = "rows.csv"\n[privacy]', "data: there is no such key"),
    ],
)
def test_mistakes_name_line_and_field(files: Path, before: str, after: str, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        read(files, before, after)


def test_two_parties_cannot_have_one_name(files: Path) -> None:
    path = files / "federation.toml"
    text = path.read_text()
    with pytest.raises(InvalidInput, match=r"found twice: \['north'\]"):
        read(files, text, text + text[text.index("[[parties]]") :])


@pytest.mark.parametrize(
    ("file", "before", "after", "message"),
    [
        ("server.toml", 'output = "output"', "output = 3", "output"),
        (
            "server.toml",
            "[[held_out]]",
            "[[held]]",
            "there is no such key; did you mean 'held_out'",
        ),
        (
            "nodes/north/node.toml",
            'name = "north"',
            'name = "south"',
            "belongs to 'south', expected",
        ),
        ("nodes/north/node.toml", "epsilon = 2.0", "epsilon = 0", r"accepts\.epsilon"),
        ("nodes/north/node.toml", "# agreement = ", "agreement = ", r"accepts\.agreement"),
        ("nodes/north/node.toml", "[accepts]", "rows = 3\n[accepts]", "rows: there is no such key"),
    ],
)
def test_so_do_mistakes_in_the_other_files(
    files: Path, file: str, before: str, after: str, message: str
) -> None:
    text = (files / file).read_text()
    assert before in text
    (files / file).write_text(text.replace(before, after))
    with pytest.raises(InvalidInput, match=message):
        read_job(files / "federation.toml")


@pytest.mark.parametrize("file", ["federation.toml", "server.toml", "nodes/north/node.toml"])
def test_files_that_are_missing_or_no_toml(files: Path, file: str) -> None:
    path = files / file
    path.write_text("name = ")
    with pytest.raises(UnreadableFile, match="not TOML"):
        read_job(files / "federation.toml")
    path.unlink()
    with pytest.raises(UnreadableFile, match="cannot be read"):
        read_job(files / "federation.toml")
