"""README.md works as written: in Python, and by three commands for a model that is there."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path

import matplotlib
import pytest
from sklearn.linear_model import LogisticRegression

from tests.support.eight_tasks import prepared
from tests.unit.app.explain.examples import BACKGROUND, ROWS, SCHEMA
from voile import cli
from voile.app.public_example import write_example

README = (Path(__file__).parents[3] / "README.md").read_text(encoding="utf-8")
SECTION = README.partition("## A model you have already")[2].partition("\n## ")[0]
(COMMANDS,) = re.findall(r"^```\n(voile .*?)^```", SECTION, re.DOTALL | re.MULTILINE)
PYTHON = re.findall(r"^```python\n(.*?)^```", README, re.DOTALL | re.MULTILINE)
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


@pytest.mark.filterwarnings("ignore::PendingDeprecationWarning")  # shap's use of matplotlib
def test_in_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    matplotlib.use("Agg")
    names = prepared()
    assert len(PYTHON) == 2
    for block in PYTHON:
        exec(compile(block, "README.md", "exec"), names)
    assert "95 % a contribution is within" in capsys.readouterr().out
    assert names["why"].guarantee.epsilon == pytest.approx(0.3, rel=1e-3)
    assert names["budget"].spent > 0.1
