"""ONNX graphs in which each row of the input has its own way to the output.

What becomes of the input is followed from node to node, by a rule for each listed operator: for its
axes in `voile.models.inspection.operators`, for its numbers in `.rounding`. Where a node has none,
or its rule is not sure, the graph is not known. Only what leads to the answer is followed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, TypeAlias

import numpy as np

from voile.core.optional import optional
from voile.models.inspection import operators as of
from voile.models.inspection.layers import LEAST_EPSILON
from voile.models.inspection.operators import Batch, Fixed, GraphNode, Rule, Value, sure

# --- What operators of ONNX make of rounding, and which of them are known ------------------------
# What is *exact* has the same numbers wherever a row stands in a batch: single numbers, added and
# multiplied, look-ups, trees. Sums, matrix products and approximated functions round differently
# from place to place; in double precision that is far below the slack in sensitivities
# (docs/decisions/row-wise-models.md), in single precision it is not, so there they are not known.
# Behind them a step makes a jump of a difference in rounding, and so does a pole.
#
# Not listed, on purpose: `LinearClassifier`, `LinearRegressor`, `SVMClassifier`, `SVMRegressor` and
# `Normalizer`, which add up in single precision.


Taken: TypeAlias = Sequence[Value | None]
DOUBLE: Final = 11
"""The number of double precision among the types of ONNX."""


def _passing(rule: Rule) -> Rule:
    """As exact as what it is given."""

    def known(node: GraphNode, taken: Taken) -> Value:
        double = any(map(_is_double, taken))
        return replace(_found(rule, node, taken), exact=_are_exact(taken), double=double)

    return known


def _step(rule: Rule) -> Rule:
    """With a jump somewhere: of what is exact alone, and exact again."""

    def known(node: GraphNode, taken: Taken) -> Value:
        sure(None, _are_exact(taken))
        return replace(_found(rule, node, taken), exact=True, double=False)

    return known


def _rounding(rule: Rule) -> Rule:
    """Continuous, with a rounding of its own."""

    def known(node: GraphNode, taken: Taken) -> Value:
        sure(None, any(map(_is_double, taken)))
        return replace(_found(rule, node, taken), exact=False, double=True)

    return known


def _pole(rule: Rule) -> Rule:
    """With a rounding of its own, and a place where it is steep or without an answer."""

    def known(node: GraphNode, taken: Taken) -> Value:
        sure(None, _are_exact(taken))
        return _rounding(rule)(node, taken)

    return known


def _found(rule: Rule, node: GraphNode, taken: Taken) -> Batch:
    found = rule(node, taken)
    assert isinstance(found, Batch)
    return found


def _are_exact(taken: Taken) -> bool:
    return all(value.exact for value in taken if isinstance(value, Batch))


def _is_double(value: Value | None) -> bool:
    if isinstance(value, Batch):
        return value.double
    return value is not None and value.content.dtype == np.float64


def _cast(node: GraphNode, taken: Taken) -> Value:
    found, double = _found(of.each, node, taken), node.attributes["to"] == DOUBLE
    return sure(replace(found, double=double), double or found.exact)


def _divided(node: GraphNode, taken: Taken) -> Value:
    sure(None, _are_exact(taken[1:]))
    return _passing(of.joined)(node, taken)


def _spread(rule: Rule) -> Rule:
    """Divides by a spread to which something is added, so that it never vanishes."""

    def known(node: GraphNode, taken: Taken) -> Value:
        sure(None, node.attributes.get("epsilon", 1e-5) >= LEAST_EPSILON)
        return _rounding(rule)(node, taken)

    return known


def _one_output(rule: Rule) -> Rule:
    def checked(node: GraphNode, taken: Taken) -> Value:
        return sure(rule, node.output == 0)(node, taken)

    return checked


_ML: Final = "ai.onnx.ml"


def _listed(
    rounds: Callable[[Rule], Rule], rule: Rule, names: str, domain: str = ""
) -> dict[tuple[str, str], Rule]:
    return {(domain, name): _one_output(rounds(rule)) for name in names.split()}


RULES: Final[Mapping[tuple[str, str], Rule]] = {
    ("", "Cast"): _one_output(_cast),
    ("", "Div"): _one_output(_divided),
    **_listed(_passing, of.each, "Abs Clip Identity LeakyRelu Neg Relu"),
    **_listed(_step, of.each, "Ceil Floor IsInf IsNaN Not Round Sign ThresholdedRelu"),
    **_listed(
        _rounding,
        of.each,
        "Celu Elu Erf Exp Gelu HardSigmoid HardSwish Mish Selu Sigmoid Softplus Softsign Tanh",
    ),
    **_listed(_pole, of.each, "Log Reciprocal Sqrt"),
    **_listed(_passing, of.joined, "Add Max Mean Min Mul PRelu Sub Sum Where"),
    **_listed(_step, of.joined, "And Equal Greater GreaterOrEqual Less LessOrEqual Mod Or Xor"),
    **_listed(_pole, of.joined, "Pow"),
    **_listed(_rounding, of.along(None), "LogSoftmax Softmax"),
    **_listed(_step, of.along(None), "Hardmax"),
    **_listed(_spread, of.along(-1), "LayerNormalization"),
    **_listed(_pole, of.along(-1), "LpNormalization"),
    **_listed(_passing, of.reduced, "ReduceMax ReduceMin"),
    **_listed(
        _rounding,
        of.reduced,
        "ReduceL1 ReduceL2 ReduceLogSumExp ReduceMean ReduceProd ReduceSum ReduceSumSquare",
    ),
    **_listed(_pole, of.reduced, "ReduceLogSum"),
    **_listed(_step, of.largest, "ArgMax ArgMin"),
    **_listed(_rounding, of.matmul, "MatMul"),
    **_listed(_rounding, of.gemm, "Gemm"),
    **_listed(_passing, of.concatenated, "Concat"),
    **_listed(_passing, of.reshaped, "Reshape"),
    **_listed(_passing, of.flattened, "Flatten"),
    **_listed(_passing, of.transposed, "Transpose"),
    **_listed(_passing, of.unsqueezed, "Unsqueeze"),
    **_listed(_passing, of.squeezed, "Squeeze"),
    **_listed(_passing, of.sliced, "Slice"),
    **_listed(_passing, of.gathered, "Gather"),
    **_listed(_spread, of.normalised, "BatchNormalization"),
    **_listed(_passing, of.extracted, "ArrayFeatureExtractor", _ML),
    **_listed(_step, of.kept, "Binarizer Imputer Scaler", _ML),
    **_listed(_step, of.regressed, "TreeEnsembleRegressor", _ML),
    (_ML, "TreeEnsembleClassifier"): _step(of.classified),
}


# --------------------------------------------------------------------------------------------------


def is_row_wise(content: bytes, answer: str) -> bool:
    """Whether a model file is known to answer each row by itself, in the output called `answer`."""
    try:
        onnx = optional("onnx", extra="explain")
        model = onnx.load_from_string(content)
        return not model.functions and isinstance(_followed(onnx, model, answer), Batch)
    except Exception:  # whatever is not understood is not known
        return False


def class_labels(content: bytes) -> tuple[str, ...] | tuple[int, ...] | None:
    """The labels of a classifier in the order of its outputs; none where the file states none.

    None where it cannot be read, or where its classifiers have different labels.
    """
    try:
        model = optional("onnx", extra="explain").load_from_string(content)
    except Exception:  # whatever is not understood is not known
        return None
    found = {
        tuple(each.decode() for each in entry.strings) or tuple(entry.ints)
        for node in model.graph.node
        for entry in node.attribute
        if entry.name in ("classlabels_strings", "classlabels_ints", "classlabels_int64s")
    } - {()}
    return None if len(found) > 1 else next(iter(found), ())


def _followed(onnx: Any, model: Any, answer: str) -> Value:
    graph = model.graph
    versions = {_domain(entry.domain): entry.version for entry in model.opset_import}
    known: dict[str, Value] = {
        tensor.name: Fixed(onnx.numpy_helper.to_array(tensor)) for tensor in graph.initializer
    }
    for entry in graph.input:
        if entry.name not in known:
            known[entry.name] = _input(entry)
    makers = {name: node for node in graph.node for name in node.output}

    def value(name: str) -> Value:
        if name not in known:
            node = makers[name]
            domain = _domain(node.domain)
            attributes = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
            if (domain, node.op_type) == ("", "Constant"):
                known[name] = Fixed(onnx.numpy_helper.to_array(attributes["value"]))
            else:
                taken = [value(given) if given else None for given in node.input]
                asked = GraphNode(attributes, versions[domain], list(node.output).index(name))
                known[name] = RULES[domain, node.op_type](asked, taken)
        return known[name]

    return value(answer)


def _domain(name: str) -> str:
    return "" if name == "ai.onnx" else name


def _input(entry: Any) -> Batch:
    given = entry.type.tensor_type
    axes = given.shape.dim
    sure(None, len(axes) == 2 and not axes[0].HasField("dim_value"))
    width = axes[1].dim_value if axes[1].HasField("dim_value") else None
    return Batch((width,), double=given.elem_type == DOUBLE)
