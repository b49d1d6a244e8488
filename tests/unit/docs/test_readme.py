"""README.md works as written: three commands or six lines, from files to a private explanation."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path

import pytest
from sklearn.linear_model import LogisticRegression

from tests.unit.app.explain.examples import BACKGROUND, ROWS, SCHEMA
from voile import cli
from voile.app.public_example import write_example

README = (Path(__file__).parents[3] / "README.md").read_text(encoding="utf-8")
SECTION = README.partition("## From a trained model")[2].partition("\n## ")[0]
BLOCK = re.compile(r"^```(?:python)?\n(.*?)^```", re.DOTALL | re.MULTILINE)
COMMANDS, LINES = BLOCK.findall(SECTION)
FITTED = """\
import numpy as np
from sklearn.linear_model import LogisticRegression

rows = np.random.default_rng(0).uniform(0, 1, (40, 3))
risk = LogisticRegression().fit(rows, rows[:, 0] > 0.5)
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What the reader has: a trained model in both forms, a schema, two files of rows."""
    (tmp_path / "clinic.toml").write_text(SCHEMA.dumps())
    write_example(SCHEMA, BACKGROUND.repeat(50, axis=0), tmp_path / "harbour.csv")
    write_example(SCHEMA, ROWS[:2], tmp_path / "patients.csv")
    convert = pytest.importorskip("skl2onnx").to_onnx
    fitted = LogisticRegression().fit(BACKGROUND, [0, 1, 1])
    onnx = convert(fitted, BACKGROUND[:1].astype("float32"), options={"zipmap": False})
    (tmp_path / "risk.onnx").write_bytes(onnx.SerializeToString())
    (tmp_path / "scoring.py").write_text(FITTED)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "scoring", raising=False)
    return tmp_path


@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.parametrize("model", ["risk.onnx", "scoring:risk"])
def test_three_commands(model: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = COMMANDS.replace("\\\n", " ").replace("risk.onnx", model).splitlines()
    assert len(lines) == 3
    for line in lines:
        with pytest.raises(SystemExit) as left:
            cli.main(shlex.split(line)[1:])
        assert left.value.code == 0, capsys.readouterr().err
    shown = capsys.readouterr().out
    assert "for each row of 'harbour 2026', zero-out, against the public" in shown
    assert "charged: harbour 2026#1" in shown
    assert (folder / "why.png").exists()


@pytest.mark.parametrize("model", ["risk.onnx", "scoring:risk"])
def test_six_lines_of_python(model: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert len([line for line in LINES.splitlines() if line]) == 6
    exec(compile(LINES.replace("risk.onnx", model), "README.md", "exec"), {})
    shown = capsys.readouterr().out
    assert "guarantee: (ε = " in shown
    assert "charged: harbour 2026#1" in shown
    assert (folder / "voile.toml").exists()


def test_what_an_explanation_looks_like(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (example,) = BLOCK.findall(README.partition("## What an explanation looks like")[2])
    exec(compile(example, "README.md", "exec"), {})
    assert Path("explanation.voile").exists()
