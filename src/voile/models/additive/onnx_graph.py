"""An additive model as an ONNX graph of standard operators, in double precision.

Its input `rows` has shape (n, features): the schema's numbers, with categories as their place in
the list. What lies outside the schema is brought inside, as `AdditiveModel.predict` does. Outputs
are `predictions` and `scores`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from voile.core.optional import optional
from voile.core.schema import Categories, Feature, Schema
from voile.models.additive.bins import FeatureBins, bin_slices
from voile.models.additive.links import Link, Number, TwoClasses

OPSET: Final = 17
IR_VERSION: Final = 8


@dataclass(frozen=True, eq=False, kw_only=True)
class Graph:
    """Nodes and constants of one graph, in the order in which they are made.

    Args:
        schema, link, bins, intercept, scores: of the model.
    """

    schema: Schema
    link: Link
    bins: Sequence[FeatureBins]
    intercept: Any
    scores: NDArray[np.float64]
    onnx: Any = field(init=False)
    nodes: list[Any] = field(init=False, default_factory=list)
    constants: list[Any] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        object.__setattr__(self, "onnx", optional("onnx", extra="explain"))

    def to_bytes(self) -> bytes:
        """The file content."""
        content: bytes = self.built().SerializeToString()
        return content

    def built(self) -> Any:
        onnx, link = self.onnx, self.link
        scores = self._scores()
        predicted = self._predictions(scores)
        self._node("Identity", [scores], "scores")
        self._node("Identity", [predicted], "predictions")
        kind = onnx.TensorProto.DOUBLE
        describe = onnx.helper.make_tensor_value_info
        width = len(self.schema.features)
        score_shape = ["n"] if link.columns == 1 else ["n", link.columns]
        graph = onnx.helper.make_graph(
            self.nodes,
            "voile additive model",
            [describe("rows", kind, ["n", width])],
            [
                describe("predictions", kind, ["n", len(link.names)]),
                describe("scores", kind, score_shape),
            ],
            self.constants,
        )
        opsets = [onnx.helper.make_opsetid("", OPSET)]
        found = onnx.helper.make_model(graph, opset_imports=opsets, producer_name="voile")
        found.ir_version = IR_VERSION
        onnx.checker.check_model(found)
        return found

    # --- parts ----------------------------------------------------------------------------------

    def _node(
        self, kind: str, inputs: list[str], name: str | None = None, **attributes: Any
    ) -> str:
        name = name or f"{kind.lower()}_{len(self.nodes)}"
        self.nodes.append(self.onnx.helper.make_node(kind, inputs, [name], **attributes))
        return name

    def _constant(self, value: Any, dtype: Any = np.float64) -> str:
        name = f"constant_{len(self.constants)}"
        array = np.asarray(value, dtype=dtype)
        self.constants.append(self.onnx.numpy_helper.from_array(array, name))
        return name

    def _scores(self) -> str:
        """Added up feature by feature, in the order of `AdditiveModel`."""
        count = self._node("Gather", [self._node("Shape", ["rows"]), self._constant([0], np.int64)])
        columns = [] if self.link.columns == 1 else [self.link.columns]
        if columns:
            width = self._constant(columns, np.int64)
            count = self._node("Concat", [count, width], axis=0)
        total = self._node("Expand", [self._constant(self.intercept), count])
        features = {feature.name: feature for feature in self.schema.features}
        places = list(features)
        for bins, part in zip(self.bins, bin_slices(self.bins), strict=True):
            place = self._constant(places.index(bins.name), np.int64)
            column = self._node("Gather", ["rows", place], axis=1)
            code = self._code(features[bins.name], bins, column)
            figures = self._node("Gather", [self._constant(self.scores[part]), code], axis=0)
            total = self._node("Add", [total, figures])
        return total

    def _code(self, feature: Feature, bins: FeatureBins, column: str) -> str:
        inside = self._inside(feature, column)
        if bins.groups is not None:
            index = self._node("Cast", [inside], to=self.onnx.TensorProto.INT64)
            return self._node("Gather", [self._constant(bins.groups, np.int64), index], axis=0)
        edges = bins.edges or (np.inf,)
        tall = self._node("Unsqueeze", [inside, self._constant([1], np.int64)])
        above = self._node("Greater", [tall, self._constant(edges)])
        counted = self._node("Cast", [above], to=self.onnx.TensorProto.INT64)
        axes = self._constant([1], np.int64)
        return self._node("ReduceSum", [counted, axes], keepdims=0)

    def _inside(self, feature: Feature, column: str) -> str:
        """Values inside the schema: the default for what is no number or not listed."""
        domain, default = feature.domain, self._constant(feature.null_value)
        missing = self._node("IsNaN", [column])
        found = self._node("Where", [missing, default, column])
        listed = isinstance(domain, Categories)
        if isinstance(domain, Categories):
            lower, upper = 0.0, len(domain.values) - 1.0
        else:
            lower, upper = float(domain.lower), float(domain.upper)
        moved = (
            self._node("Round", [found]) if listed or feature.domain.kind == "integer" else found
        )
        raised = self._node("Max", [moved, self._constant(lower)])
        inside = self._node("Min", [raised, self._constant(upper)])
        if not listed:
            return inside
        return self._node("Where", [self._node("Equal", [inside, found]), inside, default])

    def _predictions(self, scores: str) -> str:
        link, axis = self.link, self._constant([1], np.int64)
        if isinstance(link, TwoClasses):
            positive = self._node("Unsqueeze", [self._node("Sigmoid", [scores]), axis])
            other = self._node("Sub", [self._constant(1.0), positive])
            return self._node("Concat", [other, positive], axis=1)
        if isinstance(link, Number):
            raised = self._node("Max", [scores, self._constant(link.lower)])
            inside = self._node("Min", [raised, self._constant(link.upper)])
            return self._node("Unsqueeze", [inside, axis])
        return self._node("Softmax", [scores], axis=1)
