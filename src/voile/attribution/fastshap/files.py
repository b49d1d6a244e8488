"""The file a learned explainer is saved in: arrays, with everything else as JSON inside.

The surrogate travels along: without it, attributions could not be made to add up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from voile.attribution.fastshap.encoding import Encoding
from voile.attribution.fastshap.explainer import FastShap
from voile.attribution.fastshap.surrogate import Surrogate
from voile.attribution.players import Players
from voile.core import array_file
from voile.core.atomic_file import replace_file
from voile.core.choices import chosen
from voile.core.errors import UnreadableFile, VerificationFailed
from voile.core.input_file import damaged
from voile.core.optional import optional
from voile.core.schema import Schema
from voile.models import Rows
from voile.training import Head, Identity, Perceptron, Sigmoid, Softmax, arrays_of, with_arrays

FORMAT: Final = "voile learned explainer"
_SURROGATE, _EXPLAINER, _ENCODING, _HEAD = "surrogate/", "explainer/", "encoding/", "head/"
_HEADS: Final[Mapping[str, type[Any]]] = {
    "softmax": Softmax,
    "sigmoid": Sigmoid,
    "identity": Identity,
}

Arrays = dict[str, NDArray[Any]]


def save(saved: FastShap | Surrogate, path: str | Path) -> Path:
    """Write an explainer with its surrogate, or a surrogate alone; replaces the file atomically.

    >>> from voile.attribution.fastshap import train_surrogate
    >>> from voile.core.randomness import Seeded
    >>> from voile.training import TrainingPlan
    >>> rows, plan = np.random.default_rng(0).random((64, 3)), TrainingPlan(steps=20, hidden=(8,))
    >>> surrogate = train_surrogate(lambda x: x.sum(axis=1), rows, source=Seeded(0), plan=plan)
    >>> load_surrogate(save(surrogate, "surrogate.safetensors")).digest == surrogate.digest
    True
    """
    surrogate = saved.surrogate if isinstance(saved, FastShap) else saved
    labels = {
        "head": next(n for n, kind in _HEADS.items() if isinstance(surrogate.head, kind)),
        "players": list(surrogate.players.names),
        "features": list(surrogate.feature_names),
        "outputs": list(surrogate.output_names),
        "schema": None if surrogate.schema is None else surrogate.schema.dumps(),
    }
    arrays = _named(_SURROGATE, arrays_of(surrogate.network))
    arrays |= _named(_ENCODING, vars_of(surrogate.encoding))
    arrays |= _named(_HEAD, vars_of(surrogate.head))
    arrays["owner"] = surrogate.players.owner.astype(np.int64)
    if isinstance(saved, FastShap):
        arrays |= _named(_EXPLAINER, arrays_of(saved.network))
    return array_file.write(Path(path), FORMAT, arrays, labels)


def load_explainer(path: str | Path) -> FastShap:
    """Read an explainer that `save` wrote; anything else is an `UnreadableFile`.

    >>> from voile.attribution.fastshap import train_explainer, train_surrogate
    >>> from voile.core.randomness import Seeded
    >>> from voile.training import TrainingPlan
    >>> rows, plan = np.random.default_rng(0).random((64, 3)), TrainingPlan(steps=20, hidden=(8,))
    >>> surrogate = train_surrogate(lambda x: x.sum(axis=1), rows, source=Seeded(0), plan=plan)
    >>> explainer = train_explainer(surrogate, rows, source=Seeded(0), plan=plan)
    >>> again = load_explainer(save(explainer, "explainer.safetensors"))
    >>> np.array_equal(again.values(rows), explainer.values(rows))
    True
    """
    file = Path(path)
    arrays, labels = array_file.read(file, FORMAT)
    parameters = _under(_EXPLAINER, arrays)
    if not parameters:
        raise UnreadableFile(f"{file}: holds a surrogate, but no explainer; use load_surrogate")
    with damaged(file):
        return FastShap(_surrogate(labels, arrays), with_arrays(parameters))


def load_surrogate(path: str | Path) -> Surrogate:
    """Read the surrogate of a file that `save` wrote; anything else is an `UnreadableFile`.

    >>> Path("notes.txt").write_text("no surrogate")
    12
    >>> load_surrogate("notes.txt")
    Traceback (most recent call last):
    voile.core.errors.UnreadableFile: notes.txt: ...
    """
    file = Path(path)
    arrays, labels = array_file.read(file, FORMAT)
    with damaged(file):
        return _surrogate(labels, arrays)


def _surrogate(labels: Mapping[str, Any], arrays: Arrays) -> Surrogate:
    names = {key: _names(labels[key]) for key in ("players", "features", "outputs")}
    encoding = Encoding(**_under(_ENCODING, arrays))
    owner = arrays["owner"]
    text = labels["schema"]
    schema = None if text is None else Schema.loads(text)
    _agree(encoding, owner, names, schema)
    head: Head = chosen(_HEADS, labels["head"], "head")(**_under(_HEAD, arrays))
    if any(array.shape != (len(names["outputs"]),) for array in vars_of(head).values()):
        raise ValueError("its head does not fit the number of outputs")
    return Surrogate(
        encoding=encoding,
        players=Players(names["players"], owner),
        head=head,
        network=with_arrays(_under(_SURROGATE, arrays)),
        feature_names=names["features"],
        output_names=names["outputs"],
        schema=schema,
    )


def _agree(
    encoding: Encoding,
    owner: NDArray[Any],
    names: Mapping[str, tuple[str, ...]],
    schema: Schema | None,
) -> None:
    """A file may be well formed and still say impossible things: places that do not exist."""
    features, players = len(names["features"]), len(names["players"])
    shapes = {array.shape for array in vars_of(encoding).values()}
    sound = (
        shapes == {(encoding.width,)}
        and np.isin(encoding.feature, np.arange(features)).all()
        and owner.shape == (features,)
        and owner.dtype.kind == encoding.feature.dtype.kind == "i"
        and set(owner.tolist()) == set(range(players))
        and np.isfinite(encoding.shift).all()
        and np.isfinite(encoding.scale).all()
        and (schema is None or schema.feature_names == names["features"])
    )
    if not sound:
        raise ValueError("its parts do not fit together")


def vars_of(holder: Any) -> Arrays:
    """The arrays of a frozen dataclass, without what it has cached."""
    return {name: getattr(holder, name) for name in getattr(holder, "__dataclass_fields__", {})}


def _named(prefix: str, arrays: Mapping[str, NDArray[Any]]) -> Arrays:
    return {prefix + name: array for name, array in arrays.items()}


def _under(prefix: str, arrays: Arrays) -> Arrays:
    return {n.removeprefix(prefix): a for n, a in arrays.items() if n.startswith(prefix)}


def _names(given: Any) -> tuple[str, ...]:
    if not isinstance(given, list) or not given or not all(isinstance(n, str) for n in given):
        raise ValueError("names are missing")
    if len(set(given)) != len(given):
        raise ValueError("names are not different")
    return tuple(given)


# --------------------------------------------------------------------------------------------------
# A learned explainer as an ONNX file: raw rows in, attributions out, nothing of voile needed.
# The graph is written node by node: encoding, explainer, the surrogate for whole rows, and
# additive normalisation. Beside the attributions it gives the base values.


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
