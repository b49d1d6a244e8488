"""Which ONNX graphs are known to treat the rows of a batch one by one, and which are not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from voile.core.errors import UnreadableFile
from voile.models import RowWise, row_wise, wrap
from voile.models.inspection.graphs import is_row_wise

ROWS = np.abs(np.random.default_rng(3).normal(size=(60, 4)))
LABELS = (ROWS[:, 0] > ROWS[:, 1]).astype(int)
WIDE = np.ones((4, 3), dtype=np.float32)
Nodes = list[tuple[Any, ...]]


def graph(folder: Path, nodes: Nodes, fixed: dict[str, Any], opset: int = 17, **more: Any) -> Any:
    """Nodes as (operator, inputs, output, attributes), from "x" to "y"."""
    from onnx import TensorProto, helper, numpy_helper

    made = [
        helper.make_node(op, given.split(), found.split(), **attributes)
        for op, given, found, attributes in nodes
    ]
    batch = more.get("batch", "n")
    single = more.get("single", False)
    number = TensorProto.FLOAT if single else TensorProto.DOUBLE
    ends = [
        helper.make_tensor_value_info("x", number, [batch, 4]),
        helper.make_tensor_value_info("y", more.get("answer", number), None),
    ]
    arrays = {name: np.asarray(value) for name, value in fixed.items()}
    if not single:
        arrays = {n: a.astype(np.float64) if a.dtype.kind == "f" else a for n, a in arrays.items()}
    held = [numpy_helper.from_array(array, name) for name, array in arrays.items()]
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid("ai.onnx.ml", 3)]
    model = helper.make_model(
        helper.make_graph(made, "g", ends[:1], ends[1:], held), opset_imports=opsets, ir_version=8
    )
    path = folder / "model.onnx"
    path.write_bytes(model.SerializeToString())
    return wrap(path)


LINE: tuple[Any, ...] = ("MatMul", "x w", "h", {})
FOLD: tuple[Any, ...] = ("Reshape", "x s", "t", {})
ROW_WISE: dict[str, tuple[Nodes, dict[str, Any]]] = {
    "softmax": ([LINE, ("Softmax", "h", "y", {})], {}),
    "softmax along 1": ([LINE, ("Softmax", "h", "y", {"axis": 1})], {}),
    "gemm": ([("Gemm", "x w c", "y", {})], {"c": np.ones((1, 3), np.float32)}),
    "add a line": ([LINE, ("Add", "h c", "y", {})], {"c": np.ones(3, np.float32)}),
    "maximum of a row": ([("ReduceMax", "x", "y", {"axes": [1]})], {}),
    "maximum from behind": ([("ReduceMax", "x", "y", {"axes": [-1]})], {}),
    "centred rows": (
        [("ReduceMean", "x", "m", {"axes": [1], "keepdims": 1}), ("Sub", "x m", "y", {})],
        {},
    ),
    "sum of a row": ([("ReduceSum", "x a", "y", {})], {"a": np.array([1])}),
    "reshaped there and back": (
        [("Reshape", "x s", "t", {}), ("Reshape", "t u", "y", {})],
        {"s": np.array([0, 2, 2]), "u": np.array([-1, 4])},
    ),
    "columns": (
        [("Slice", "x o e a", "s", {}), ("Concat", "s x", "y", {"axis": 1})],
        {"o": np.array([1]), "e": np.array([3]), "a": np.array([1])},
    ),
    "places": ([("Gather", "x i", "y", {"axis": 1})], {"i": np.array([0, 2])}),
    "turned inside": (
        [
            ("Unsqueeze", "x a", "u", {}),
            ("Transpose", "u", "t", {"perm": [0, 2, 1]}),
            ("Squeeze", "t b", "y", {}),
        ],
        {"a": np.array([1]), "b": np.array([2])},
    ),
    "known statistics": (
        [("BatchNormalization", "x s b m v", "y", {})],
        {name: np.ones(4, np.float32) for name in "sbmv"},
    ),
}
MIXING: dict[str, tuple[Nodes, dict[str, Any]]] = {
    "maximum of the batch": (
        [("ReduceMax", "x", "m", {"axes": [0]}), ("Sub", "x m", "y", {})],
        {},
    ),
    "maximum of everything": ([("ReduceMax", "x", "m", {}), ("Sub", "x m", "y", {})], {}),
    "from behind": ([("ReduceMax", "x", "m", {"axes": [-2]}), ("Sub", "x m", "y", {})], {}),
    "sum of everything": ([("ReduceSum", "x", "m", {}), ("Sub", "x m", "y", {})], {}),
    "softmax over the batch": ([LINE, ("Softmax", "h", "y", {"axis": 0})], {}),
    "a vector's softmax": (
        [("ReduceMax", "x", "v", {"axes": [1], "keepdims": 0}), ("Softmax", "v", "y", {})],
        {},
    ),
    "turned": ([("Transpose", "x", "t", {}), ("MatMul", "x t", "y", {})], {}),
    "gemm, turned": (
        [("Gemm", "x x", "g", {"transA": 1}), ("MatMul", "x g", "y", {})],
        {},
    ),
    "folded": (
        [
            ("Reshape", "x s", "t", {}),
            ("ReduceMax", "t", "m", {"axes": [1]}),
            LINE,
            ("Sub", "h m", "y", {}),
        ],
        {"s": np.array([-1, 8])},
    ),
    "all in one line": (
        [
            ("Reshape", "x s", "t", {}),
            ("ReduceMax", "t", "m", {"axes": [1]}),
            ("Sub", "x m", "y", {}),
        ],
        {"s": np.array([1, -1])},
    ),
    "flattened": ([("Flatten", "x", "f", {"axis": 0}), ("Mul", "f f", "y", {})], {}),
    "one after the other": (
        [("Slice", "x o e", "s", {}), ("Sub", "x s", "y", {})],
        {"o": np.array([0]), "e": np.array([1])},
    ),
    "the first row": (
        [("Gather", "x i", "r", {"axis": 0}), ("Sub", "x r", "y", {})],
        {"i": np.array([0])},
    ),
    "summed up": ([("CumSum", "x a", "y", {})], {"a": np.array(0)}),
    "how many": (
        [
            ("Shape", "x", "s", {}),
            ("Cast", "s", "f", {"to": 11}),
            LINE,
            ("ReduceMax", "f", "m", {}),
            ("Add", "h m", "y", {}),
        ],
        {},
    ),
    "a number for each place": (
        [("Add", "x c", "y", {})],
        {"c": np.arange(8, dtype=np.float32).reshape(2, 4)},
    ),
    "statistics of the batch": (
        [("BatchNormalization", "x s b m v", "y p q", {"training_mode": 1})],
        {name: np.ones(4, np.float32) for name in "sbmv"},
    ),
    "stacked": ([("Concat", "x x", "y", {"axis": 0})], {}),
    "one fixed answer": ([("Identity", "w", "y", {})], {}),
    "at random": ([("RandomNormalLike", "x", "y", {})], {}),
}


@pytest.mark.parametrize("name", ROW_WISE)
def test_graphs_of_listed_operators_are_known(name: str, tmp_path: Path) -> None:
    nodes, fixed = ROW_WISE[name]
    model = graph(tmp_path, nodes, {"w": WIDE} | fixed)
    assert row_wise(model) is RowWise.KNOWN
    together, alone = model.predict(ROWS), [model.predict(row[np.newaxis])[0] for row in ROWS]
    assert np.allclose(together, alone, atol=1e-13)


@pytest.mark.parametrize("name", MIXING)
def test_graphs_in_which_rows_may_meet_are_not_known(name: str, tmp_path: Path) -> None:
    nodes, fixed = MIXING[name]
    try:
        model = graph(tmp_path, nodes, {"w": WIDE} | fixed)
    except UnreadableFile:  # onnxruntime does not run it: asked of the bytes instead
        assert not is_row_wise((tmp_path / "model.onnx").read_bytes(), "y")
        return
    assert row_wise(model) is None


def test_older_operators_have_other_defaults(tmp_path: Path) -> None:
    softmax: Nodes = [LINE, ("Softmax", "h", "y", {})]
    assert row_wise(graph(tmp_path, softmax, {"w": WIDE}, opset=12)) is RowWise.KNOWN
    wrong: Nodes = [LINE, ("Softmax", "h", "y", {"axis": 0})]
    assert row_wise(graph(tmp_path, wrong, {"w": WIDE}, opset=12)) is None


def test_a_graph_for_a_fixed_number_of_rows_is_not_known(tmp_path: Path) -> None:
    assert row_wise(graph(tmp_path, [("MatMul", "x w", "y", {})], {"w": WIDE}, batch=2)) is None


def test_an_open_session_does_not_show_its_graph(tmp_path: Path) -> None:
    known = graph(tmp_path, [("MatMul", "x w", "y", {})], {"w": WIDE})
    assert row_wise(known) is RowWise.KNOWN
    assert row_wise(wrap(known.source, digest="x")) is None


FLOAT = 1
STEADY_IN_SINGLE: dict[str, tuple[Nodes, dict[str, Any]]] = {
    "scaled": (
        [("Sub", "x m", "c", {}), ("Div", "c s", "y", {})],
        {"m": np.ones(4, np.float32), "s": np.full(4, 3, np.float32)},
    ),
    "compared": (
        [("Greater", "x m", "g", {}), ("Where", "g m n", "y", {})],
        {"m": np.ones(4, np.float32), "n": np.zeros(4, np.float32)},
    ),
    "looked up": (
        [
            ("Gather", "x i", "c", {"axis": 1}),
            ("Cast", "c", "p", {"to": 7}),
            ("Gather", "t p", "y", {"axis": 0}),
        ],
        {"i": np.array([0]), "t": np.array([0.1, 0.2, 0.4, 0.8], np.float32)},
    ),
    "largest of a row": ([("ReduceMax", "x", "y", {"axes": [1]})], {}),
    "a product in double": (
        [
            ("Cast", "x", "d", {"to": 11}),
            ("MatMul", "d w", "y", {}),
        ],
        {"w": np.ones((4, 3))},
    ),
}
SUM: tuple[Any, ...] = ("MatMul", "x w", "h", {})
STEPS: dict[str, tuple[Nodes, dict[str, Any]]] = {
    "sign": ([SUM, ("Sign", "h", "y", {})], {}),
    "whole": ([SUM, ("Floor", "h", "y", {})], {}),
    "cast": ([SUM, ("Cast", "h", "i", {"to": 7}), ("Cast", "i", "y", {"to": 11})], {}),
    "single": ([SUM, ("Cast", "h", "i", {"to": 1}), ("Cast", "i", "y", {"to": 11})], {}),
    "compared": (
        [SUM, ("Greater", "h z", "g", {}), ("Where", "g z o", "y", {})],
        {"z": np.zeros(1), "o": np.ones(1)},
    ),
    "place of the largest": (
        [SUM, ("ArgMax", "h", "i", {"axis": 1}), ("Cast", "i", "y", {"to": 11})],
        {},
    ),
    "root": ([SUM, ("Sqrt", "h", "y", {})], {}),
    "logarithm": ([SUM, ("Log", "h", "y", {})], {}),
    "divided by it": ([SUM, ("Div", "o h", "y", {})], {"o": np.ones(1)}),
    "normalised": ([SUM, ("LayerNormalization", "h s", "y", {"epsilon": 0.0})], {"s": np.ones(3)}),
}


@pytest.mark.parametrize("name", STEADY_IN_SINGLE)
def test_exact_graphs_are_known_in_single_precision(name: str, tmp_path: Path) -> None:
    nodes, fixed = STEADY_IN_SINGLE[name]
    answer = 11 if "double" in name else FLOAT
    model = graph(tmp_path, nodes, fixed, single=True, answer=answer)
    assert row_wise(model) is RowWise.KNOWN
    together, alone = model.predict(ROWS), [model.predict(row[np.newaxis])[0] for row in ROWS]
    assert np.allclose(together, alone, atol=0 if answer == FLOAT else 1e-13, rtol=0)


@pytest.mark.parametrize("operator", ["MatMul", "Sigmoid", "ReduceSum", "Softmax"])
def test_what_rounds_is_not_known_in_single_precision(operator: str, tmp_path: Path) -> None:
    second = {"MatMul": " w", "ReduceSum": " a"}.get(operator, "")
    nodes: Nodes = [(operator, f"x{second}", "y", {})]
    fixed = {"w": WIDE, "a": np.array([1])}
    assert row_wise(graph(tmp_path, nodes, fixed, single=True)) is None
    assert row_wise(graph(tmp_path, nodes, fixed)) is RowWise.KNOWN


@pytest.mark.parametrize("name", STEPS)
def test_steps_and_poles_behind_a_sum_are_not_known(name: str, tmp_path: Path) -> None:
    nodes, fixed = STEPS[name]
    graph(tmp_path, nodes, {"w": WIDE} | fixed)
    assert not is_row_wise((tmp_path / "model.onnx").read_bytes(), "y")


def exported(estimator: Any, folder: Path, kind: Any = np.float32) -> Any:
    to_onnx = pytest.importorskip("skl2onnx").to_onnx
    found = estimator.fit(ROWS, LABELS)
    path = folder / "estimator.onnx"
    made = to_onnx(found, ROWS[:1].astype(kind), options={id(found): {"zipmap": False}})
    path.write_bytes(made.SerializeToString())
    return wrap(path)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "estimator",
    [RandomForestClassifier(300), make_pipeline(StandardScaler(), RandomForestClassifier(3))],
    ids=["forest", "scaled"],
)
def test_exported_trees_are_known_and_exact(estimator: Any, tmp_path: Path) -> None:
    model = exported(estimator, tmp_path)
    assert row_wise(model) is RowWise.KNOWN
    alone = np.concatenate([model.predict(row[np.newaxis]) for row in ROWS])
    np.testing.assert_array_equal(model.predict(ROWS), alone)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "estimator",
    [
        LogisticRegression(),
        MLPClassifier((4,), max_iter=3),
        make_pipeline(StandardScaler(), LogisticRegression()),
    ],
    ids=["logistic", "perceptron", "scaled"],
)
def test_exported_sums_in_single_precision_are_not_known(estimator: Any, tmp_path: Path) -> None:
    assert row_wise(exported(estimator, tmp_path)) is None
