"""`voile demo`, `init`, `federate` and `report` as people and scripts meet them."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.light import Ran, voile

from voile.cli import main
from voile.datasets import clinic_federation

# typer 0.20 uses names that click has since deprecated.
pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning")
SMALL = ("--rows", "50")


def run_main(*arguments: str) -> int:
    with pytest.raises(SystemExit) as left:
        main(list(arguments))
    return int(left.value.code or 0)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("demo") / "it's a `folder` of $mine"


@pytest.fixture(scope="module")
def shown(folder: Path) -> Ran:
    """Where torch is not installed; what else the extra `demo` leaves out is not used."""
    found = voile("demo", "--output", folder, *SMALL, folder=folder.parent)
    # OpenDP loads scikit-learn where it finds it, for helpers of its own.
    assert found.loaded.isdisjoint({"shap", "skl2onnx"})
    return found


def test_the_result_is_for_people_and_progress_beside_it(shown: Ran, folder: Path) -> None:
    assert "ε = 2, δ = 1e-5" in shown.stdout
    assert shown.stdout.index("log-loss") < shown.stdout.index("\npatients")
    assert "a network by DP-SGD" in shown.stdout
    assert "signed and verified offline" in shown.stdout
    assert str(folder / "artefact" / "report.html") in shown.stdout
    assert "centred moments: round 1 of 1, 8 of 8 clients; ε = " in shown.stderr
    assert "round" not in shown.stdout


def test_the_commands_to_try_next_work(shown: Ran) -> None:
    """Even in a folder whose name a shell would take apart."""
    _, _, following = shown.stdout.partition("Next, try:\n")
    commands = [line.strip() for line in following.splitlines()]
    assert len(commands) == 4
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    run = subprocess.run(
        ["sh", "-ec", "\n".join(commands)],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "PATH": path, "PYTHONUTF8": "1"},
    )
    assert run.returncode == 0, run.stderr
    assert "picture: why.png" in run.stdout
    assert "the answer handed in is the one that was recorded" in run.stdout
    assert "Privacy budget of clinic demo v1" in run.stdout


def test_an_artefact_is_reported_and_refused_where_it_is_none(
    shown: Ran,
    folder: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert shown.stdout
    page = tmp_path / "page.html"
    command = ["report", str(folder / "artefact"), "--output", str(page), "--json"]
    assert run_main(*command) == 0
    assert json.loads(capsys.readouterr().out) == {"report": str(page)}
    assert page.read_text().startswith("<!doctype html>")
    assert run_main("report", str(tmp_path)) == 2
    assert run_main("explain", str(tmp_path), "x.csv") == 2
    assert "not a finished artefact" in capsys.readouterr().err


def test_a_place_that_is_a_file_is_a_fault_in_words(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    assert run_main("demo", "--output", str(tmp_path / "file")) == 5
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines()[-1].startswith("voile: error: ")


HOSPITALS = {"north": "city", "south": "coast", "held-out": "mountain", "people": "harbour"}


def write_hospitals(folder: Path) -> dict[str, int]:
    """Files as docs/federate.md calls them, and how many rows each has."""
    clinic = clinic_federation(50, seed=2)
    sizes = {file: len(clinic.hospitals[name]) for file, name in HOSPITALS.items()} | {"people": 3}
    for file, name in HOSPITALS.items():
        data = clinic.hospitals[name]
        table = clinic.schema.table(data.rows[: sizes[file]])
        label = [data.label_names[int(value)] for value in data.labels[: sizes[file]]]
        lines = [(*table, "readmitted"), *zip(*table.values(), label, strict=True)]
        text = "".join(",".join(map(str, line)) + "\n" for line in lines)
        (folder / f"{file}.csv").write_text(text)
    return sizes


def fill_in(folder: Path, sizes: dict[str, int]) -> None:
    """What `voile init` leaves to people."""
    (folder / "schema.toml").write_text(clinic_federation(50, seed=2).schema.dumps())
    config = folder / "federation.toml"
    text = config.read_text().replace("1e-05", "1e-4")
    for name in ("north", "south"):
        text = text.replace("rows = 0", f"rows = {sizes[name]}", 1)
        node = folder / "nodes" / name / "node.toml"
        node.write_text(node.read_text().replace("1e-05", "1e-4"))
    config.write_text(text.replace("rounds = 10", "rounds = 2"))
    server = folder / "server.toml"
    server.write_text(
        server.read_text().replace("# distillation_steps = 3000", "distillation_steps = 20")
    )


def commands(text: str) -> list[list[str]]:
    """Lines that a reader would type, without comments."""
    found = [shlex.split(line, comments=True) for line in text.splitlines() if "voile " in line]
    return [words[1:] for words in found if words[:1] == ["voile"]]


def documented() -> list[list[str]]:
    page = (Path(__file__).parents[3] / "docs" / "federate.md").read_text()
    (block,) = [part for part in page.split("```")[1::2] if "voile init" in part]
    return commands(block)


def contents(folder: Path) -> dict[str, bytes]:
    """All files but those that a database keeps beside it while it is open."""
    beside = ("-wal", "-shm", ".turn", ".lock")
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path): path.read_bytes() for path in files if not path.name.endswith(beside)}


def test_every_command_that_is_documented_or_printed_works_in_its_turn(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """init, fill in, federate, explain: the whole way of a data scientist, from whatever folder."""
    home, elsewhere = tmp_path / "at home", tmp_path / "elsewhere"
    home.mkdir()
    elsewhere.mkdir()
    monkeypatch.chdir(home)
    sizes = write_hospitals(home)
    init, *others = documented()
    names = [words[0] for words in (init, *others)]
    assert names == ["init", "schema", "schema", "federate", "federate", "explain"]
    assert run_main(*init) == 0
    printed = commands(capsys.readouterr().out)  # what it says comes next
    assert [words for words in printed if "south.csv" not in words] == others[:4]
    fill_in(home, sizes)
    for words in others:
        if words == others[3]:
            assert run_main(*words) == 3, "so few rows make noise of it, and it asks first"
            said = capsys.readouterr().err
            assert said.splitlines()[-1].startswith("voile: error: nothing was charged")
            words = [*words, "--yes"]
        assert run_main(*words) == 0
    (following,) = [each for each in commands(capsys.readouterr().out) if each[0] == "explain"]
    assert run_main(*following) == 0
    capsys.readouterr()

    workspace = home / "output" / "voile.toml"
    workspace.write_text(workspace.read_text() + "# mine\n")
    monkeypatch.chdir(elsewhere)
    before = contents(home)
    assert run_main("federate", str(home / "federation.toml")) == 0
    assert contents(home) == before, "a complete run that is started again changes nothing"
    assert workspace.read_text().endswith("# mine\n"), "what somebody wrote in is left as it is"
    (following,) = commands(capsys.readouterr().out)
    assert run_main(*following) == 0
    assert run_main("explain", str(home / "output/artefact"), str(home / "people.csv")) == 0
    assert list(elsewhere.iterdir()) == []
    monkeypatch.chdir(home / "output")
    assert run_main("explain", "readmitted", str(home / "people.csv")) == 0
    monkeypatch.chdir(home / "output" / "artefact")
    capsys.readouterr()
    assert run_main("explain", ".", str(home / "people.csv"), "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["guarantees"][0]["delta"] == pytest.approx(1e-4)


def test_an_artefact_without_its_books_takes_those_of_this_folder(
    shown: Ran,
    folder: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert shown.stdout
    shutil.copytree(folder / "artefact", tmp_path / "copy" / "artefact")
    monkeypatch.chdir(tmp_path)
    asked = ("explain", "copy/artefact", str(folder / "patients.csv"))
    assert run_main(*asked) == 2
    assert "voile audit init" in capsys.readouterr().err
    assert run_main("audit", "init", "log.db", "--origin", "example.org/mine") == 0
    assert run_main(*asked) == 0


def test_a_federation_that_was_renamed_is_refused_by_its_preview_already(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    sizes = write_hospitals(tmp_path)
    assert run_main("init", "north.csv", "south.csv", "--name", "winter") == 0
    fill_in(tmp_path, sizes)
    config = Path("federation.toml")
    config.write_text(config.read_text().replace('name = "winter"', 'name = "spring"'))
    for words in (["federation.toml", "--preview"], ["federation.toml"], ["keygen", str(config)]):
        capsys.readouterr()
        assert run_main("federate", *words) == 2
        said = capsys.readouterr().err
        assert "belongs to 'winter'. Set `name` back" in said
        assert "--name spring --output FOLDER" in said
    for name in ("north", "south"):
        assert not (tmp_path / "nodes" / name / "updates").exists()
    config.write_text(config.read_text().replace('name = "spring"', 'name = "winter"'))
    assert run_main("federate", "federation.toml", "--preview") == 0


def test_init_asks_for_a_name_on_a_terminal_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_hospitals(tmp_path)
    asked: list[str] = []

    def answer(text: str, *, default: str, err: bool) -> str:
        assert err
        asked.append(f"{text} [{default}]")
        return "winter"

    monkeypatch.setattr("typer.prompt", answer)
    assert run_main("init", "north.csv", "--output", "quiet") == 0
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    assert run_main("init", "north.csv", "--output", "stated", "--name", "spring") == 0
    assert run_main("init", "north.csv", "--output", "json", "--json") == 0
    assert not asked
    assert run_main("init", "north.csv", "--output", "told") == 0
    assert asked == ["Name of the federation, and of this version of its data [told]"]
    called = {"quiet": "quiet", "stated": "spring", "json": "json", "told": "winter"}
    for folder, name in called.items():
        assert f'name = "{name}"\n' in (tmp_path / folder / "federation.toml").read_text()


@pytest.mark.parametrize("spoiled", ["output/artefact", "output/artefact/schema.toml"])
def test_a_federation_with_nowhere_to_write_charges_nothing(
    spoiled: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    sizes = write_hospitals(tmp_path)
    assert run_main("init", "north.csv", "south.csv") == 0
    fill_in(tmp_path, sizes)
    place = Path(spoiled)
    place.parent.mkdir(parents=True, exist_ok=True)
    place.mkdir() if place.suffix else place.touch()
    assert run_main("federate", "federation.toml") == 2
    assert spoiled in capsys.readouterr().err
    for name in ("north", "south"):
        assert not (tmp_path / "nodes" / name / "updates").exists()
        assert (tmp_path / "nodes" / name / "audit.checkpoint").exists() is False
