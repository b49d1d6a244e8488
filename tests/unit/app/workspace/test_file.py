"""`voile.toml`: what may stand in it, and how what is wrong is named."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from tests.unit.app.workspace.examples import MODEL, write_files

from voile.app.commands.fields import RenamedWarning
from voile.app.workspace import WorkspaceFile
from voile.core.errors import InvalidInput, Refused, UnreadableFile
from voile.core.guarantee import RowPart

TEXT = f"""\
origin = "example.org/loans"

[models.score]
source = "{MODEL}"
origin = "training.json"
output_range = [0, 1]

[models.file]
source = "risk.onnx"
origin = "trained-on:loans 2024"

[schemas.loans]
file = "loans.toml"

[backgrounds.public]
file = "public.csv"
origin = "public"

[backgrounds.customers]
file = "customers.csv"

[accounts."customers v1"]
dataset = "customers v1"
epsilon = 5
delta = 1e-5

[releases.free]
model = "score"
schema = "loans"
background = "public"

[releases.paid]
model = "file"
schema = "loans"
background = "customers"
protect = "background"
account = "customers v1"
epsilon = 0.5
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    write_files(tmp_path)
    (tmp_path / "risk.onnx").touch()
    return tmp_path


def read(home: Path, text: str = TEXT) -> WorkspaceFile:
    (home / "voile.toml").write_text(text)
    return WorkspaceFile.read(home / "voile.toml")


def test_names_become_a_specification_with_paths_beside_the_file(home: Path) -> None:
    file = read(home)
    free, paid = file.spec("free"), file.spec("paid", data="rows.csv")
    assert file.releases == ("free", "paid")
    assert (free.model, free.model_origin) == (MODEL, str(home / "training.json"))
    assert free.output_range == (0, 1)
    assert (free.background, free.background_origin) == (str(home / "public.csv"), "public")
    assert free.schema_file == home / "loans.toml"
    assert (paid.model, paid.model_origin) == (str(home / "risk.onnx"), "trained-on:loans 2024")
    assert (paid.protect, paid.account, paid.epsilon) == (RowPart.BACKGROUND, "customers v1", 0.5)
    assert (paid.background_origin, paid.data) == (None, "rows.csv")
    file.check_files()


def test_a_former_key_of_a_release_is_read_as_the_new_one(home: Path) -> None:
    now = read(home, TEXT + 'output_name = "ill"\n').spec("paid")
    with pytest.warns(RenamedWarning, match="output is now called output_name"):
        assert read(home, TEXT + 'output = "ill"\n').spec("paid") == now
    assert now.output_name == "ill"


def test_keys_lie_beside_the_database_unless_they_are_named(home: Path) -> None:
    assert read(home).place.signing_key == home / "audit.key"
    moved = read(home, 'storage = "books/log.db"\n[keys]\nreplay = "own.key"\n').place
    assert moved.database == str(home / "books" / "log.db")
    assert moved.policy == home / "books" / "audit-policy.toml"
    assert moved.replay_key == home / "own.key"
    served = read(home, 'storage = "postgresql://db.example/x"').place
    assert served.signing_key == home / "audit.key", "of a server: beside the file"


WRONG = {
    "an unknown key": ("origin =", "orign =", r":1: orign: there is no such key; .* 'origin'\?"),
    "an unknown table": ("[models.file]", "[model.file]", r"model: there is .* 'models'\?"),
    "a key of a model": (
        "output_range",
        "output_rang",
        r":6: models\.score\.output_rang: .*range'",
    ),
    "a key of a release": (
        "epsilon = 0",
        "epsilom = 0",
        r"releases\.paid\.epsilom: .* 'epsilon'\?",
    ),
    "a missing key": ('source = "risk.onnx"\n', "", r"models\.file\.source: is missing"),
    "a wrong type": ("epsilon = 5", 'epsilon = "5"', r"accounts\.\"customers v1\"\.epsilon: "),
    "a truth value": ("epsilon = 5", "epsilon = true", r"\.epsilon: .*number"),
    "a value of an option": ('protect = "b', 'protect = "c', r"releases\.paid\.protect: "),
    "no such model": ('model = "file"', 'model = "fil"', r"\[models\], found 'fil'; .* 'file'\?"),
    "a list for a name": ('model = "file"', 'model = ["file"]', r"paid\.model: expected the name"),
    "no such account": ('account = "c', 'account = "x', r"releases\.paid\.account: expected the"),
    "an origin in a release": (
        "[releases.paid]",
        '[releases.paid]\nmodel_origin = "x"',
        "cannot be set here: use origin of the model",
    ),
    "rows in a release": ("[releases.paid]", '[releases.paid]\ndata = "x"', "cannot be set here"),
    "a relation that does not fit": (
        "epsilon = 5",
        'unit = "explained row"\nepsilon = 5',
        r"accounts\.\"customers v1\": ",
    ),
    "an origin of protected rows": (
        'file = "customers.csv"',
        'file = "customers.csv"\norigin = "public"',
        r"releases\.paid\.background: these rows are protected, but",
    ),
    "two figures for one": (
        "epsilon = 0.5",
        "epsilon = 0.5\nnoise = 1",
        r"releases\.paid: set either epsilon or noise",
    ),
    "a model of unknown origin": (
        'origin = "trained',
        '# "trained',
        r"models\.file: say what",
    ),
    "rows of unknown origin": (
        'origin = "public"',
        "",
        r"backgrounds\.public: say where these rows come from",
    ),
    "a password": (
        "origin = ",
        'storage = "postgresql://a:hidden@b/c"\norigin = ',
        r":1: storage: do not put a password",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_is_named_by_file_line_and_key(home: Path, case: str) -> None:
    old, new, said = WRONG[case]
    assert old in TEXT
    with pytest.raises(InvalidInput, match=said) as refused:
        read(home, TEXT.replace(old, new, 1))
    assert str(refused.value).startswith(f"{home / 'voile.toml'}:")
    assert "hidden" not in str(refused.value)


def test_a_promise_that_cannot_be_kept_is_refused_with_its_place(home: Path) -> None:
    with pytest.raises(Refused, match=r":\d+: releases\.paid: level granular needs the role"):
        read(home, TEXT + 'level = "granular"\nrole = "reader"\n')


def test_a_name_stands_once(home: Path) -> None:
    with pytest.raises(UnreadableFile, match="not TOML"):
        read(home, TEXT + '[models.file]\nsource = "other.onnx"\n')


@pytest.mark.parametrize(
    ("file", "key"),
    [
        ("risk.onnx", "models.file.source"),
        ("training.json", "models.score.origin"),
        ("loans.toml", "schemas.loans.file"),
        ("customers.csv", "backgrounds.customers.file"),
    ],
)
def test_a_missing_file_is_named_by_table_and_key(home: Path, file: str, key: str) -> None:
    (home / file).unlink()
    with pytest.raises(InvalidInput) as refused:
        read(home).check_files()
    assert f"{key}: {home / file}: there is no such file" in str(refused.value)


@pytest.mark.parametrize(
    ("more", "key"),
    [
        ('[keys]\nsigning = "own.key"\n', "keys.signing"),
        ('[keys]\npolicy = "own.toml"\n', "keys.policy"),
        (
            '[releases.more]\nmodel = "score"\nexplainer = "x.safetensors"\n',
            "releases.more.explainer",
        ),
        ('[schemas.long]\nfile = "' + "x" * 5000 + '"\n', "schemas.long.file"),
    ],
)
def test_so_are_keys_explainers_and_impossible_names(home: Path, more: str, key: str) -> None:
    with pytest.raises(InvalidInput, match=key):
        read(home, TEXT + more).check_files()


def test_a_replay_key_may_be_made_later(home: Path) -> None:
    read(home, TEXT + '[keys]\nreplay = "own.key"\n').check_files()


def test_a_name_that_is_not_there_is_told_with_the_nearest(home: Path) -> None:
    with pytest.raises(InvalidInput, match=r"no release 'fre', only 'free', 'paid'; .* 'free'\?"):
        read(home).spec("fre")


# --- what the file itself may be ------------------------------------------------------------------


def pipe(path: Path) -> None:
    os.mkfifo(path)


def binary(path: Path) -> None:
    path.write_bytes(b"\xff\xfe")


def dangling(path: Path) -> None:
    path.symlink_to("nowhere")


@pytest.mark.parametrize("made", [pipe, binary, dangling, Path.mkdir])
def test_what_is_no_text_file_is_refused_without_waiting(tmp_path: Path, made: Any) -> None:
    made(tmp_path / "voile.toml")
    with pytest.raises(UnreadableFile, match=r"voile\.toml"):
        WorkspaceFile.read(tmp_path)


def test_a_huge_file_is_not_read(home: Path) -> None:
    (home / "voile.toml").write_text("#" * (2**20 + 1))
    with pytest.raises(UnreadableFile, match="larger than the 1 MiB"):
        WorkspaceFile.read(home)


def test_a_link_is_the_workspace_of_the_folder_it_stands_in(home: Path) -> None:
    read(home)
    (home / "study").mkdir()
    (home / "study" / "voile.toml").symlink_to(home / "voile.toml")
    assert WorkspaceFile.read(home / "study").folder == home / "study"


def test_a_folder_stands_for_its_file(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read(home)
    monkeypatch.chdir(home)
    assert WorkspaceFile.read(Path("voile.toml")).place.database == "log.db"
    assert WorkspaceFile.read(Path()).path == Path("voile.toml")
    with pytest.raises(UnreadableFile, match="elsewhere"):
        WorkspaceFile.read(Path("elsewhere"))
