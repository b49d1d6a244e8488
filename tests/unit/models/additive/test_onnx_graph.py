"""An exported model answers as the model does, also for rows that no schema would accept."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.unit.models.additive.test_model import ROWS, SCHEMA, model

from voile.core.schema import Categories, Label, Numbers
from voile.models.additive import AdditiveModel

onnxruntime = pytest.importorskip("onnxruntime")


def several_classes() -> AdditiveModel:
    draw = np.random.default_rng(3)
    return replace(
        model(),
        schema=replace(SCHEMA, label=Label("kind", Categories(("a", "b", "c")))),
        intercept=draw.normal(size=3),
        scores=draw.normal(size=(8, 3)),
        covariance=np.zeros((3, 8, 8)),
    )


def number() -> AdditiveModel:
    return replace(model(), schema=replace(SCHEMA, label=Label("cost", Numbers(-1.0, 1.0))))


def nothing() -> AdditiveModel:
    """No feature is in use."""
    empty = np.zeros(0)
    return replace(model(), bins=(), scores=empty, masses=empty, covariance=np.zeros((0, 0)))


STRANGE = np.array(
    [
        [np.nan, np.nan, np.nan, np.nan],
        [30.5, 1.5, np.inf, 80.0],
        [31.5, -1, -np.inf, np.nextafter(80.0, 81)],
        [1e300, 17, 0.5, np.inf],
        [-5, 3, 0.5, -np.inf],
    ]
)


@pytest.mark.parametrize("made", [model, several_classes, number, nothing])
def test_the_runtime_agrees(made: object, tmp_path: Path) -> None:
    found: AdditiveModel = made()  # type: ignore[operator]
    path = found.export_onnx(tmp_path / "model.onnx")
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    draw = np.random.default_rng(0)
    usual = np.column_stack([draw.integers(0, 101, 500), draw.integers(0, 4, 500)])
    more = np.column_stack([usual, draw.random(500), draw.uniform(40, 120, 500)])
    edges = np.column_stack([np.full((3, 3), 1.0), [79.999, 80.0, 80.001]])
    for rows in (ROWS, more, edges, STRANGE):
        predicted, scores = session.run(None, {"rows": rows})
        assert predicted == pytest.approx(found.predict(rows), abs=1e-6)
        assert np.array_equal(scores, found.row_scores(rows))
