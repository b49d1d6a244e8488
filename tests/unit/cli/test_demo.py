"""`voile demo`, `init`, `federate` and `report` as people and scripts meet them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from voile.cli import main
from voile.datasets import clinic_federation

# typer 0.20 uses names that click has since deprecated.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")
SMALL = ("--rows", "50")


def run_main(*arguments: str) -> int:
    with pytest.raises(SystemExit) as left:
        main(list(arguments))
    return int(left.value.code or 0)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("demo") / "it's a `folder` of $mine"


@pytest.fixture(scope="module")
def shown(folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "voile.cli", "demo", "--output", str(folder), *SMALL],
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )


def test_the_result_is_for_people_and_progress_beside_it(
    shown: subprocess.CompletedProcess[str], folder: Path
) -> None:
    assert "ε = 2, δ = 1e-05" in shown.stdout
    assert "without privacy" in shown.stdout
    assert "signed and verified offline" in shown.stdout
    assert str(folder / "artefact" / "report.html") in shown.stdout
    assert "black box: round 10 of 10, 8 of 8 clients; ε = " in shown.stderr
    assert "round" not in shown.stdout


def test_the_commands_to_try_next_work(shown: subprocess.CompletedProcess[str]) -> None:
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
    shown: subprocess.CompletedProcess[str],
    folder: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert shown.returncode == 0
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


def test_from_ones_own_files_to_an_artefact(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """init, fill in, federate, explain: the whole way of a data scientist."""
    monkeypatch.chdir(tmp_path)
    clinic = clinic_federation(50, seed=2)
    for name in ("city", "coast", "mountain"):
        data = clinic.hospitals[name]
        table = clinic.schema.table(data.rows)
        label = [data.label_names[int(value)] for value in data.labels]
        lines = [(*table, "readmitted"), *zip(*table.values(), label, strict=True)]
        text = "".join(",".join(map(str, line)) + "\n" for line in lines)
        (tmp_path / f"{name}.csv").write_text(text)
    assert run_main("init", "city.csv", "coast.csv") == 0
    (tmp_path / "schema.toml").write_text(clinic.schema.dumps())
    config = tmp_path / "federation.toml"
    text = config.read_text().replace("held-out.csv", "mountain.csv").replace("1e-5", "1e-4")
    for name in ("city", "coast"):
        text = text.replace("rows = 0", f"rows = {len(clinic.hospitals[name])}", 1)
    config.write_text(text.replace("rounds = 10", "rounds = 2\ndistillation_steps = 20"))
    capsys.readouterr()
    assert run_main("federate", "federation.toml", "--json") == 0
    result = json.loads(capsys.readouterr().out)
    assert result["guarantee"]["delta"] == pytest.approx(1e-4)
    assert Path(result["report"]).is_file()
    asked = ["explain", result["artefact"], "mountain.csv", "--json"]
    books = ["--database", "output/log.db", "--key", "output/audit.key"]
    books += ["--policy", "output/audit-policy.toml", "--replay-key", "output/replay.key"]
    assert run_main(*asked, *books) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["guarantees"] == [result["guarantee"]]
