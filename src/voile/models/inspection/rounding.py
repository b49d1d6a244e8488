"""What operators of ONNX make of rounding, and which of them are known.

What is *exact* has the same numbers wherever a row stands in a batch: single numbers, added and
multiplied, look-ups, trees. Sums, matrix products and approximated functions round differently from
place to place; in double precision that is far below the slack in sensitivities
(docs/decisions/row-wise-models.md), in single precision it is not, so there they are not
known. Behind them a step makes a jump of a difference in rounding, and so does a pole.

Not listed, on purpose: `LinearClassifier`, `LinearRegressor`, `SVMClassifier`, `SVMRegressor` and
`Normalizer`, which add up in single precision.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final, TypeAlias

import numpy as np

from voile.models.inspection import operators as of
from voile.models.inspection.layers import LEAST_EPSILON
from voile.models.inspection.operators import Batch, GraphNode, Rule, Value
from voile.models.inspection.unsure import sure

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
