"""A model that mixes the rows of a batch: the claim about one background row holds all the same.

The model answers every row with the maximum over its batch, as an ONNX graph with `ReduceMax` over
the first axis does. Handed all rows together, one record decides all answers, and the outputs of
neighbours lie further apart than any noise at 1/m hides: the claim (0.5, 0.01) was refuted with a
delta above 0.7.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.statistical import bounds
from voile.core.guarantee import Protected, ProtectedUnit, Relation
from voile.core.schema import Feature, Numbers, Schema
from voile.models import Box, wrap
from voile.release import PUBLIC, PrivateBackgroundShapley

pytestmark = pytest.mark.filterwarnings("ignore::voile.privacy.mechanisms.WeakPrivacyWarning")
EPSILON, DELTA = 0.5, 0.01
ROWS = 16
DRAWS = 10_000
SCHEMA = Schema("two", (Feature("a", Numbers(0.0, 1.0)), Feature("b", Numbers(0.0, 1.0))))
OTHER = {Relation.REPLACE_ONE: 0.0, Relation.BLANK_ONE: np.nan}


def graph(folder: Path) -> Any:
    onnx = pytest.importorskip("onnx")
    helper, real = onnx.helper, onnx.TensorProto.FLOAT
    nodes = [
        helper.make_node("ReduceMax", ["x"], ["top"], axes=[0, 1], keepdims=1),
        helper.make_node("ReduceMax", ["x"], ["row"], axes=[1], keepdims=1),
        helper.make_node("Mul", ["row", "zero"], ["nothing"]),
        helper.make_node("Add", ["nothing", "top"], ["y"]),
    ]
    zero = onnx.numpy_helper.from_array(np.zeros((1, 1), dtype=np.float32), "zero")
    ends = [helper.make_tensor_value_info(name, real, ["n", w]) for name, w in (("x", 2), ("y", 1))]
    made = helper.make_graph(nodes, "mixer", ends[:1], ends[1:], [zero])
    opset = [helper.make_opsetid("", 13)]
    path = folder / "mixer.onnx"
    path.write_bytes(helper.make_model(made, opset_imports=opset, ir_version=8).SerializeToString())
    return wrap(path, outputs=Box(0, 1))


def function(folder: Path) -> Any:  # noqa: ARG001
    return wrap(lambda rows: np.full(len(rows), rows.max()), outputs=Box(0, 1), digest="highest")


def drawn(model: Any, first: float, relation: Relation) -> NDArray[np.float64]:
    """Values of both features and the base value, of one public row, many times."""
    background = np.zeros((ROWS, 2))
    background[0] = first
    release = PrivateBackgroundShapley(
        model,
        background,
        schema=SCHEMA,
        protected=Protected(ProtectedUnit.ROW, relation, "rows 1"),
        epsilon=EPSILON,
        delta=DELTA,
        origins=[PUBLIC],
    )
    found = release.draw(np.zeros((DRAWS, 2)))
    return np.column_stack([found.values[:, :, 0], found.base_values])


@pytest.mark.parametrize("relation", list(OTHER))
@pytest.mark.parametrize("build", [graph, function])
def test_one_background_row_is_hidden_whatever_the_model_does_with_a_batch(
    build: Any, relation: Relation, tmp_path: Path
) -> None:
    model = build(tmp_path)
    first, second = (drawn(model, row, relation) for row in (1.0, OTHER[relation]))
    direction = first.mean(axis=0) - second.mean(axis=0)
    one, two = first @ direction, second @ direction
    refuted = max(
        bounds.delta_at_least(one, two, EPSILON), bounds.delta_at_least(-two, -one, EPSILON)
    )
    assert refuted < DELTA
