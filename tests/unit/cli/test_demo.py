"""`voile demo` as people and scripts meet it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from voile.cli import main
from voile.core.explanation import Explanation
from voile.core.guarantee import Guarantee
from voile.workflows.demo import Demo

# typer 0.20 uses names that click has since deprecated.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


def run_main(*arguments: str) -> int:
    with pytest.raises(SystemExit) as left:
        main(list(arguments))
    return int(left.value.code or 0)


def test_the_result_is_shown_for_people(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "a folder"
    assert run_main("demo", "--output", str(folder)) == 0
    out, err = capsys.readouterr()
    assert err == ""
    saved, picture = folder / "explanation.voile", folder / "explanation.png"
    assert repr(Explanation.load(saved)) in out
    assert f"saved    {saved}\n" in out
    assert f"picture  {picture}\n" in out
    assert "Laplace noise of scale 0.00088: 19 out of 20 are off by less\nthan 0.0026." in out
    assert saved.is_file()
    assert picture.is_file()


def test_the_command_to_try_next_works(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Even in a folder whose name a shell would take apart."""
    folder = tmp_path / 'it\'s $HOME; a `folder` "of" mine'
    assert run_main("demo", "--output", str(folder)) == 0
    out, _ = capsys.readouterr()
    (command,) = [line.strip() for line in out.splitlines() if line.startswith("  python -c")]
    bin_folder = str(Path(sys.executable).parent)
    run = subprocess.run(
        ["sh", "-c", command],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
        env={**os.environ, "PATH": f"{bin_folder}:{os.environ['PATH']}", "PYTHONUTF8": "1"},
    )
    assert run.stdout == f"{Explanation.load(folder / 'explanation.voile')!r}\n"


def test_the_result_is_one_object_for_scripts(tmp_path: Path) -> None:
    run = subprocess.run(
        [sys.executable, "-m", "voile.cli", "demo", "--output", str(tmp_path / "out"), "--json"],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert run.stderr == ""
    result = json.loads(run.stdout)
    assert result["output"] == str(tmp_path / "out")
    assert Path(result["picture"]).is_file()
    explanation = Explanation.load(result["saved"])
    assert tuple(map(Guarantee.from_dict, result["guarantees"])) == explanation.guarantees
    assert list(result["attributions"]) == list(explanation.feature_names)
    assert list(result["attributions"].values()) == explanation.values[0, :, 0].tolist()
    assert explanation.standard_errors is not None
    assert np.isclose(result["noise_scale"] * np.sqrt(2), explanation.standard_errors[0, 0, 0])


@pytest.mark.parametrize("form", [[], ["--json"]])
def test_progress_stays_out_of_the_result(
    form: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    explanation: Any = Explanation(
        values=np.array([[1.0]]), base_values=np.array(0.0), feature_names=("[bold]age",)
    )

    def run(output: Path) -> Demo:
        print("working")
        return Demo(explanation, 0.5, output / "x", output / "y")

    monkeypatch.setattr("voile.workflows.demo.run", run)
    assert run_main("demo", "--output", str(tmp_path), *form) == 0
    out, err = capsys.readouterr()
    assert err == "working\n"
    assert "working" not in out
    if form:
        assert json.loads(out)["saved"] == str(tmp_path / "x")
        assert json.loads(out)["guarantees"] == []
    else:
        assert "[bold]age" in out


def test_a_place_that_is_a_file_is_a_fault_in_words(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    assert run_main("demo", "--output", str(tmp_path / "file")) == 5
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("voile: error: ")
    assert err.count("\n") == 1
