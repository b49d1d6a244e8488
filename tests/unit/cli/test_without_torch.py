"""The main path where torch is not installed; and torch is named nowhere but at its doors."""

from __future__ import annotations

import ast
from pathlib import Path
from shutil import rmtree

import pytest
from tests.contract.test_previous_version import unpacked
from tests.light import voile

import voile as package

DOORS = {
    "models/networks.py",
    "training/private/modules.py",
}
"""Wrapping and gradients, what a module is made of, DP-SGD for modules."""
HEAVY = {"shap", "pandas", "matplotlib", "opendp", "dp_accounting", "onnx"}


@pytest.fixture
def study(tmp_path: Path) -> Path:
    """A federation, with an artefact of the previous version."""
    return unpacked("study", tmp_path)


@pytest.fixture
def loans(tmp_path: Path) -> Path:
    return unpacked("loans", tmp_path)


ASKED = ("applicants.csv", "--schema", "loans.toml", "--output-range", "0", "1")
PUBLIC = ("--model-origin", "public", "--background", "public.csv", "--background-origin", "public")
SCIKIT_LEARN = """
import numpy as np
from sklearn.linear_model import LogisticRegression

rows = np.random.default_rng(0).uniform(0, 10, (50, 2))
score = LogisticRegression().fit(rows, rows[:, 0] > rows[:, 1])
"""


def test_an_artefact_explains_a_person(study: Path) -> None:
    ran = voile("explain", "output/artefact", "rows.csv", "--output", "new.voile", folder=study)
    assert "guarantee: (ε = 2.99995" in ran.stdout
    assert ran.loaded.isdisjoint({*HEAVY, "scipy", "sklearn", "onnxruntime"})


def test_an_onnx_file_is_explained(loans: Path) -> None:
    ran = voile("explain", "model.onnx", *ASKED, *PUBLIC, "--output", "new.voile", folder=loans)
    assert ran.loaded.isdisjoint(HEAVY - {"onnx"})


def test_a_scikit_learn_model_is_explained(loans: Path) -> None:
    (loans / "scoring.py").write_text(SCIKIT_LEARN)
    words = (*ASKED, *PUBLIC, "--output", "new.voile")
    voile("explain", "scoring:score", *words, folder=loans)


def test_a_background_is_paid_for_and_verified(loans: Path) -> None:
    """Noise, ledger, log, receipt; no accountant of others, and no solver, unless needed."""
    private = ("--model-origin", "public", "--protect", "background", "--background")
    paid = ("customers.csv", "--account", "branch", "--epsilon", "0.1", "--output", "new.voile")
    voile("explain", "model.onnx", *ASKED, *private, *paid, folder=loans)
    shown = voile("budget", "show", "log.db", folder=loans)
    assert shown.loaded.isdisjoint({*HEAVY, "sklearn", "onnxruntime"})
    voile("budget", "verify", "log.db", folder=loans)
    verified = voile("audit", "verify", "new.tlog-proof", "--answer", "new.voile", folder=loans)
    assert verified.loaded.isdisjoint({*HEAVY, "scipy", "sklearn", "onnxruntime"})


def test_parties_train_together(study: Path) -> None:
    rmtree(study / "output")
    voile("init", "federation.toml", "--output", "split", folder=study)
    config = next((study / "split").rglob("federation.toml"))
    ran = voile("federate", config, folder=study)
    assert ran.loaded.isdisjoint({"shap", "sklearn", "opendp"})


def names_torch(file: Path) -> bool:
    """Whether it imports torch, asks `optional` for it or takes it from loaded modules."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            found = [node.module or ""]
        elif isinstance(node, ast.Call | ast.Subscript):
            asked = isinstance(node, ast.Subscript) or ast.unparse(node.func) == "optional"
            parts = node.args if isinstance(node, ast.Call) else [node.slice]
            found = [str(p.value) for p in parts if asked and isinstance(p, ast.Constant)]
        else:
            continue
        if any(name.partition(".")[0] == "torch" for name in found):
            return True
    return False


def test_torch_has_its_doors_and_no_other() -> None:
    """`optional("torch")` is an import that the import linter does not see."""
    folder = Path(package.__path__[0])
    found = {f.relative_to(folder).as_posix() for f in folder.rglob("*.py") if names_torch(f)}
    assert found == DOORS
