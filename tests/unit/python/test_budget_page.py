"""The snippets about schemas, budgets, private explanations and proof run as they are written."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression

import voile
from tests.unit.python.people import people, pipeline
from voile.app import open_records

DECLARED = """
schema = voile.Schema({"age": (18, 100), "sex": ["f", "m"], "income": (0, 500_000)})
"""
DRAFTED = """
schema = voile.Schema.from_frame(X_public)              # public rows only; says so
"""
BUDGET = """
budget = voile.Budget("clinic 2026", epsilon=3, delta=1e-6)             # ./voile.db
"""
IN_MEMORY = """
budget = voile.Budget.in_memory("try-out", epsilon=3, delta=1e-6)       # says: nothing is kept
"""
EXPLAIN = """
explainer = voile.Explainer(model, X_private, protect="background", schema=schema, budget=budget,
                            model_origin="trained-on:clinic 2025")     # refused without it: the promise rests on it
print(explainer.preview(X_new, epsilon=0.1))
why = explainer(X_new, epsilon=0.1)
"""  # noqa: E501
IMPORTANCE = """
importance = voile.importance(
                 model, X_private, background=X_public, schema=schema, budget=budget, epsilon=0.5,
                 model_origin="trained-on:clinic 2025")
"""
PROOF = """
why.save("why.voile"); why.receipt.save("why.tlog-proof")
verified = voile.verify("why.voile", "why.tlog-proof", policy="audit-policy.toml")
"""


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    open_records.close_all()


def adults() -> dict[str, Any]:
    """Numbers and text, a pipeline over both."""
    return {
        "voile": voile,
        "model": pipeline(),
        "X_private": people(120),
        "X_public": people(40, seed=7),
        "X_new": people(1, seed=5),
    }


def irises() -> dict[str, Any]:
    """What scikit-learn ships."""
    found = load_iris(as_frame=True)
    table, target = found.data, found.target_names[found.target]
    is_virginica = target == "virginica"
    model = LogisticRegression(max_iter=1_000).fit(table[::3], is_virginica[::3])
    assert isinstance(table, pd.DataFrame)
    return {
        "voile": voile,
        "model": model,
        "X_private": table[1::3],
        "X_public": table[2::3],
        "X_new": table[2:3],
    }


def run(names: dict[str, Any], *snippets: str) -> dict[str, Any]:
    for snippet in snippets:
        exec(snippet, names)
    return names


@pytest.mark.parametrize(
    ("names", "schema", "budget"),
    [(adults, DECLARED, BUDGET), (adults, DRAFTED, IN_MEMORY), (irises, DRAFTED, BUDGET)],
    ids=["declared", "drafted", "iris"],
)
def test_snippets_2_to_5(names: Any, schema: str, budget: str, capsys: Any) -> None:
    found = run(names(), schema, budget, EXPLAIN, IMPORTANCE)
    said = capsys.readouterr()
    assert "1 row: ε = 0.1" in said.out
    assert ("rows that you call public" in said.err) == (schema == DRAFTED)
    assert ("nothing is kept" in said.err) == (budget == IN_MEMORY)
    assert found["why"].guarantee.epsilon == 0.1
    assert found["importance"].guarantee.epsilon == 0.5
    assert 0 < found["budget"].spent < 0.1


def test_the_whole_notebook_runs_again_for_free() -> None:
    cells = (DECLARED, BUDGET, EXPLAIN, IMPORTANCE)
    first = run(adults(), *cells)
    spent = first["budget"].spent
    again = run(adults(), *cells)
    assert again["budget"].spent == spent
    assert (again["why"], again["importance"]) == (first["why"], first["importance"])


def test_snippet_8(home: Path) -> None:
    found = run(adults(), DECLARED, BUDGET, EXPLAIN, PROOF)
    assert bool(found["verified"]) is True
    assert "✓ answer: the answer handed in is the one that was recorded" in repr(found["verified"])
    assert (home / "why.tlog-proof").stat().st_mode & 0o077 == 0
