"""A learned explainer as an ONNX file: raw rows in, attributions out, nothing of voile needed.

The graph is written node by node: encoding, explainer, the surrogate for whole rows, and additive
normalisation. Beside the attributions it gives the base values.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from voile.attribution.fastshap.explainer import FastShap
from voile.attribution.fastshap.surrogate import Surrogate
from voile.core.atomic_file import replace_file
from voile.core.errors import VerificationFailed
from voile.core.optional import optional
from voile.models import Rows
from voile.training import Identity, Perceptron, Sigmoid, Softmax

OPSET: Final = 17
TOLERANCE: Final = 1e-4


class _Graph:
    """Collects nodes and constants; `add` returns the name of the one result."""

    def __init__(self) -> None:
        self._onnx = optional("onnx", extra="explain")
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def constant(self, value: NDArray[Any]) -> str:
        name = f"c{len(self.constants)}"
        self.constants.append(self._onnx.numpy_helper.from_array(np.ascontiguousarray(value), name))
        return name

    def add(self, kind: str, *inputs: str, name: str | None = None, **settings: Any) -> str:
        result = name or f"n{len(self.nodes)}"
        self.nodes.append(self._onnx.helper.make_node(kind, list(inputs), [result], **settings))
        return result

    def perceptron(self, network: Perceptron, inputs: str) -> tuple[str, list[str]]:
        """The last layer, and all hidden ones."""
        hidden = []
        for layer in network.layers:
            inputs = self.add("Gemm", inputs, *map(self.constant, layer), transB=1)
            if layer is not network.layers[-1]:
                inputs = self.add("Relu", inputs)
                hidden.append(inputs)
        return inputs, hidden


def export_onnx(explainer: FastShap, path: str | Path, *, example: Rows | None = None) -> Path:
    """Write the explainer as ONNX: `rows` (n, features) in double precision to `attributions`
    (n, players, outputs) and `base_values` (outputs,).

    With `example` rows, onnxruntime runs the file before it takes its name; a result that differs
    from the explainer's is a `VerificationFailed`.

    >>> from voile.attribution.fastshap import train_explainer, train_surrogate
    >>> from voile.core.randomness import Seeded
    >>> from voile.training import TrainingPlan
    >>> rows, plan = np.random.default_rng(0).random((64, 3)), TrainingPlan(steps=20, hidden=(8,))
    >>> surrogate = train_surrogate(lambda x: x.sum(axis=1), rows, source=Seeded(0), plan=plan)
    >>> explainer = train_explainer(surrogate, rows, source=Seeded(0), plan=plan)
    >>> export_onnx(explainer, "explainer.onnx", example=rows[:2]).name
    'explainer.onnx'
    """
    onnx = optional("onnx", extra="explain")
    model = _model(explainer, onnx)
    onnx.checker.check_model(model)
    content: bytes = model.SerializeToString()
    if example is not None:
        _verify(explainer, content, explainer.surrogate.read(example, "example"))
    return replace_file(Path(path), content)


def _model(explainer: FastShap, onnx: Any) -> Any:
    surrogate, graph = explainer.surrogate, _Graph()
    players, outputs = surrogate.players.count, len(surrogate.output_names)
    columns = _encoded(graph, surrogate)
    logits, hidden = graph.perceptron(surrogate.complete, columns)
    deep = explainer.sees_surrogate
    seen = graph.add("Concat", columns, *hidden, axis=1) if deep else columns
    raw, _ = graph.perceptron(explainer.network, seen)
    shape = graph.constant(np.array([-1, players, outputs], dtype=np.int64))
    raw = graph.add("Reshape", raw, shape)
    whole = _headed(graph, surrogate, logits)
    base = graph.add(
        "Identity", graph.constant(surrogate.base.astype(np.float32)), name="base_values"
    )
    axis = graph.constant(np.array([1], dtype=np.int64))
    rest = graph.add("Sub", graph.add("Sub", whole, base),
                     graph.add("ReduceSum", raw, axis, keepdims=0))  # fmt: skip
    share = graph.add("Div", rest, graph.constant(np.array(players, dtype=np.float32)))
    graph.add("Add", raw, graph.add("Unsqueeze", share, axis), name="attributions")
    return _wrapped(onnx, graph, surrogate)


def _encoded(graph: _Graph, surrogate: Surrogate) -> str:
    """As `Encoding.columns`: scaled in double precision, compared, then narrowed."""
    encoding = surrogate.encoding
    picked = graph.add("Gather", "rows", graph.constant(encoding.feature.astype(np.int64)), axis=1)
    shifted = graph.add("Sub", picked, graph.constant(encoding.shift))
    number = graph.add("Mul", shifted, graph.constant(encoding.scale))
    is_number = np.isnan(encoding.category)
    category = graph.constant(np.where(is_number, 0.0, encoding.category))
    equal = graph.add("Cast", graph.add("Equal", picked, category), to=11)  # double
    chosen = graph.add("Where", graph.constant(is_number), number, equal)
    return graph.add("Cast", chosen, to=1)  # float32


def _headed(graph: _Graph, surrogate: Surrogate, logits: str) -> str:
    head = surrogate.head
    if isinstance(head, Softmax):
        return graph.add("Softmax", logits, axis=-1)
    if isinstance(head, Sigmoid):
        share = graph.add("Sigmoid", logits)
        scaled = graph.add("Mul", share, graph.constant(head.upper - head.lower))
        return graph.add("Add", scaled, graph.constant(head.lower))
    assert isinstance(head, Identity)
    scaled = graph.add("Mul", logits, graph.constant(head.spread))
    return graph.add("Add", scaled, graph.constant(head.centre))


def _wrapped(onnx: Any, graph: _Graph, surrogate: Surrogate) -> Any:
    def tensor(name: str, kind: int, shape: Sequence[Any]) -> Any:
        return onnx.helper.make_tensor_value_info(name, kind, list(shape))

    players, outputs = surrogate.players.count, len(surrogate.output_names)
    double, single = onnx.TensorProto.DOUBLE, onnx.TensorProto.FLOAT
    body = onnx.helper.make_graph(
        graph.nodes,
        "voile_learned_explainer",
        [tensor("rows", double, ["n", len(surrogate.feature_names)])],
        [
            tensor("attributions", single, ["n", players, outputs]),
            tensor("base_values", single, [outputs]),
        ],
        graph.constants,
    )
    model = onnx.helper.make_model(
        body,
        producer_name="voile",
        opset_imports=[onnx.helper.make_opsetid("", OPSET)],
        ir_version=8,
    )
    names = {"players": surrogate.players.names, "features": surrogate.feature_names,
             "outputs": surrogate.output_names}  # fmt: skip
    onnx.helper.set_model_props(model, {key: "\n".join(value) for key, value in names.items()})
    return model


def _verify(explainer: FastShap, content: bytes, rows: Rows) -> None:
    runtime = optional("onnxruntime", extra="explain")
    session = runtime.InferenceSession(content, providers=["CPUExecutionProvider"])
    found = session.run(["attributions"], {"rows": rows})[0]
    wanted = explainer.values(rows)
    gap = float(np.abs(found - wanted).max())
    if not gap <= TOLERANCE * max(1.0, float(np.abs(wanted).max())):
        raise VerificationFailed(
            f"the exported explainer differs from this one by {gap:.2g} on the example rows; "
            "nothing was written"
        )
