"""ONNX graphs in which each row of the input has its own way to the output.

What becomes of the input is followed from node to node, by a rule for each listed operator: one for
its axes, one for its numbers. Where a node has none, or its rule is not sure, the graph is not
known. Only what leads to the answer is followed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from voile.core.optional import optional
from voile.models.inspection import LEAST_EPSILON, Unsure, sure

# --- What operators of ONNX do to a batch: a rule for each that is known --------------------------
# `Batch` is a tensor whose first axis is the batch and whose slices depend on one row each,
# `Fixed` does not depend on the rows at all. A rule says what an operator makes of their shapes,
# from its axes and attributes, and refuses what it does not know: a batch where something fixed
# belongs, an axis that is the batch, an output beside the first. Where all inputs are fixed there
# is no batch, and no rule fits.


@dataclass(frozen=True)
class Batch:
    """A tensor of shape (rows, *rest); sizes that are not known are None.

    Args:
        rest: its shape, without the batch.
        exact: whether a row has the same numbers wherever it stands in a batch.
        double: whether it is known to be in double precision.
    """

    rest: tuple[int | None, ...]
    exact: bool = True
    double: bool = False

    @property
    def rank(self) -> int:
        return 1 + len(self.rest)

    def inside(self, axis: int) -> int:
        """An axis counted from the front; it must not be the batch."""
        found = axis + self.rank if axis < 0 else axis
        return sure(found, 1 <= found < self.rank)


@dataclass(frozen=True)
class Fixed:
    """The same for every batch."""

    content: NDArray[Any]

    @property
    def shape(self) -> tuple[int, ...]:
        return self.content.shape

    @property
    def numbers(self) -> list[int]:
        return [int(number) for number in self.content.ravel()]


Value: TypeAlias = Batch | Fixed
Rule: TypeAlias = Callable[["GraphNode", Sequence[Value | None]], Value]


@dataclass(frozen=True)
class GraphNode:
    """What is asked of a node.

    Args:
        attributes: as they are given.
        version: of the operators in its domain.
        output: which of its outputs.
    """

    attributes: Mapping[str, Any]
    version: int
    output: int


def _batch(value: Value | None) -> Batch:
    if not isinstance(value, Batch):
        raise Unsure
    return value


def _fixed(value: Value | None) -> Fixed:
    if not isinstance(value, Fixed):
        raise Unsure
    return value


def each(node: GraphNode, taken: Sequence[Value | None]) -> Value:  # noqa: ARG001
    """Number by number; further inputs are single numbers, such as bounds."""
    for other in taken[1:]:
        sure(None, other is None or math.prod(_fixed(other).shape) == 1)
    return _batch(taken[0])


def joined(node: GraphNode, taken: Sequence[Value | None]) -> Value:  # noqa: ARG001
    """Number by number, after shapes were aligned at their ends and axes of length 1 stretched."""
    batches = [value for value in taken if isinstance(value, Batch)]
    rank = batches[0].rank
    rests = [_beside(value, rank) for value in taken]
    return Batch(tuple(_stretched(sizes) for sizes in zip(*rests, strict=True)))


def _beside(value: Value | None, rank: int) -> tuple[int | None, ...]:
    """The sizes of all axes but the batch."""
    if isinstance(value, Batch):
        return sure(value.rest, value.rank == rank)
    shape = _fixed(value).shape
    sure(None, len(shape) <= rank)
    first, *rest = (1,) * (rank - len(shape)) + shape
    # As long as the batch, it would have something else for each place in it.
    return sure(tuple(rest), first == 1)


def _stretched(sizes: tuple[int | None, ...]) -> int | None:
    wide = set(sizes) - {1}
    return 1 if not wide else wide.pop() if len(wide) == 1 else None


def matmul(node: GraphNode, taken: Sequence[Value | None]) -> Value:  # noqa: ARG001
    left, right = _batch(taken[0]), _fixed(taken[1])
    sure(None, left.rank >= 2 and len(right.shape) == 2)
    return Batch((*left.rest[:-1], right.shape[1]))


def gemm(node: GraphNode, taken: Sequence[Value | None]) -> Value:
    left, right = _batch(taken[0]), _fixed(taken[1])
    sure(None, left.rank == 2 and not node.attributes.get("transA", 0))
    width = right.shape[0 if node.attributes.get("transB", 0) else 1]
    if len(taken) > 2 and taken[2] is not None:
        added = _fixed(taken[2]).shape
        sure(None, len(added) < 2 or added[0] == 1)
    return Batch((width,))


def along(default: int | None) -> Rule:
    """Along one axis that is not the batch; None: the last, or all from the second on before 13."""

    def rule(node: GraphNode, taken: Sequence[Value | None]) -> Value:
        found = _batch(taken[0])
        for other in taken[1:]:
            _beside(_fixed(other), found.rank)
        usual = (-1 if node.version >= 13 else 1) if default is None else default
        found.inside(node.attributes.get("axis", usual))
        return found

    return rule


def _axes_of(node: GraphNode, taken: Sequence[Value | None]) -> list[int]:
    """From the attribute of older operators, or the second input of newer ones; never all."""
    if "axes" in node.attributes:
        return list(node.attributes["axes"])
    sure(None, len(taken) > 1)
    return _fixed(taken[1]).numbers


def reduced(node: GraphNode, taken: Sequence[Value | None]) -> Value:
    found = _batch(taken[0])
    axes = {found.inside(axis) for axis in _axes_of(node, taken)}
    sure(None, bool(axes))  # none given: over everything
    if node.attributes.get("keepdims", 1):
        return Batch(tuple(1 if p in axes else size for p, size in enumerate(found.rest, 1)))
    return Batch(tuple(size for p, size in enumerate(found.rest, 1) if p not in axes))


def largest(node: GraphNode, taken: Sequence[Value | None]) -> Value:
    axis = [node.attributes.get("axis", 0)]
    return reduced(replace(node, attributes={**node.attributes, "axes": axis}), taken)


def concatenated(node: GraphNode, taken: Sequence[Value | None]) -> Value:
    parts = [_batch(value) for value in taken]
    axis = parts[0].inside(node.attributes["axis"])
    sure(None, all(part.rank == parts[0].rank for part in parts))
    sizes = [part.rest[axis - 1] for part in parts]
    whole = None if None in sizes else sum(size or 0 for size in sizes)
    return Batch((*parts[0].rest[: axis - 1], whole, *parts[0].rest[axis:]))


def reshaped(node: GraphNode, taken: Sequence[Value | None]) -> Value:
    """The batch stays in front: it is kept by name (0), or what is left (−1) can only be it."""
    found, (first, *others) = _batch(taken[0]), _fixed(taken[1]).numbers
    kept = first == 0 and not node.attributes.get("allowzero", 0)
    rest = tuple(size if size > 0 else None for size in others)
    if kept:
        return Batch(rest)
    before = [size for size in found.rest if size is not None]
    whole = len(before) == len(found.rest) and None not in rest
    product = math.prod(size or 0 for size in rest)
    return sure(Batch(rest), first == -1 and whole and math.prod(before) == product)


def flattened(node: GraphNode, taken: Sequence[Value | None]) -> Value:
    found = _batch(taken[0])
    sure(None, node.attributes.get("axis", 1) == 1)
    sizes = [size for size in found.rest if size is not None]
    return Batch((math.prod(sizes) if len(sizes) == len(found.rest) else None,))


def transposed(node: GraphNode, taken: Sequence[Value | None]) -> Value:
    found = _batch(taken[0])
    order = list(node.attributes.get("perm", range(found.rank)[::-1]))
    sure(None, order[0] == 0)
    return Batch(tuple(found.rest[place - 1] for place in order[1:]))


def unsqueezed(node: GraphNode, taken: Sequence[Value | None]) -> Value:
    found, axes = _batch(taken[0]), _axes_of(node, taken)
    rest: list[int | None] = list(found.rest)
    wider = Batch((None,) * (len(rest) + len(axes)))
    for place in sorted(wider.inside(axis) for axis in axes):
        rest.insert(place - 1, 1)
    return Batch(tuple(rest))


def squeezed(node: GraphNode, taken: Sequence[Value | None]) -> Value:
    found = _batch(taken[0])
    gone = {found.inside(axis) for axis in _axes_of(node, taken)}
    return Batch(tuple(size for place, size in enumerate(found.rest, 1) if place not in gone))


def sliced(node: GraphNode, taken: Sequence[Value | None]) -> Value:  # noqa: ARG001
    """Starts, ends, axes, steps as inputs; without axes it begins with the batch."""
    found, limits = _batch(taken[0]), [_fixed(value) for value in taken[1:]]
    cut = {found.inside(axis) for axis in limits[2].numbers}
    return Batch(tuple(None if place in cut else s for place, s in enumerate(found.rest, 1)))


def gathered(node: GraphNode, taken: Sequence[Value | None]) -> Value:
    """Some places of an axis; or, from a fixed table, the lines that each row names."""
    axis = node.attributes.get("axis", 0)
    data, places = taken[0], taken[1]
    if isinstance(data, Fixed):
        table = data.shape
        sure(None, axis == 0)
        return Batch((*_batch(places).rest, *table[1:]))
    found = _batch(data)
    place = found.inside(axis)
    return Batch((*found.rest[: place - 1], *_fixed(places).shape, *found.rest[place:]))


def extracted(node: GraphNode, taken: Sequence[Value | None]) -> Value:  # noqa: ARG001
    """Some places of the last axis."""
    found = _batch(taken[0])
    sure(None, found.rank >= 2)
    return Batch((*found.rest[:-1], math.prod(_fixed(taken[1]).shape)))


def normalised(node: GraphNode, taken: Sequence[Value | None]) -> Value:
    """With the mean and variance of training, not of the batch; channels are the second axis."""
    found = _batch(taken[0])
    for other in taken[1:]:
        _fixed(other)
    # Before version 14 further outputs asked for training, which onnxruntime refuses to run.
    inference = node.version >= 9 and not node.attributes.get("training_mode", 0)
    return sure(found, inference and found.rank >= 2)


def kept(node: GraphNode, taken: Sequence[Value | None]) -> Batch:  # noqa: ARG001
    """Takes (rows, features) and gives them back."""
    found = _batch(taken[0])
    return sure(found, found.rank == 2 and len(taken) == 1)


def regressed(node: GraphNode, taken: Sequence[Value | None]) -> Value:
    kept(node, taken)
    return Batch((None,))


def classified(node: GraphNode, taken: Sequence[Value | None]) -> Value:
    """Labels, of shape (rows,), and scores."""
    kept(node, taken)
    return Batch((None,)) if node.output == 1 else Batch(())


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
    found, double = _found(each, node, taken), node.attributes["to"] == DOUBLE
    return sure(replace(found, double=double), double or found.exact)


def _divided(node: GraphNode, taken: Taken) -> Value:
    sure(None, _are_exact(taken[1:]))
    return _passing(joined)(node, taken)


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
    **_listed(_passing, each, "Abs Clip Identity LeakyRelu Neg Relu"),
    **_listed(_step, each, "Ceil Floor IsInf IsNaN Not Round Sign ThresholdedRelu"),
    **_listed(
        _rounding,
        each,
        "Celu Elu Erf Exp Gelu HardSigmoid HardSwish Mish Selu Sigmoid Softplus Softsign Tanh",
    ),
    **_listed(_pole, each, "Log Reciprocal Sqrt"),
    **_listed(_passing, joined, "Add Max Mean Min Mul PRelu Sub Sum Where"),
    **_listed(_step, joined, "And Equal Greater GreaterOrEqual Less LessOrEqual Mod Or Xor"),
    **_listed(_pole, joined, "Pow"),
    **_listed(_rounding, along(None), "LogSoftmax Softmax"),
    **_listed(_step, along(None), "Hardmax"),
    **_listed(_spread, along(-1), "LayerNormalization"),
    **_listed(_pole, along(-1), "LpNormalization"),
    **_listed(_passing, reduced, "ReduceMax ReduceMin"),
    **_listed(
        _rounding,
        reduced,
        "ReduceL1 ReduceL2 ReduceLogSumExp ReduceMean ReduceProd ReduceSum ReduceSumSquare",
    ),
    **_listed(_pole, reduced, "ReduceLogSum"),
    **_listed(_step, largest, "ArgMax ArgMin"),
    **_listed(_rounding, matmul, "MatMul"),
    **_listed(_rounding, gemm, "Gemm"),
    **_listed(_passing, concatenated, "Concat"),
    **_listed(_passing, reshaped, "Reshape"),
    **_listed(_passing, flattened, "Flatten"),
    **_listed(_passing, transposed, "Transpose"),
    **_listed(_passing, unsqueezed, "Unsqueeze"),
    **_listed(_passing, squeezed, "Squeeze"),
    **_listed(_passing, sliced, "Slice"),
    **_listed(_passing, gathered, "Gather"),
    **_listed(_spread, normalised, "BatchNormalization"),
    **_listed(_passing, extracted, "ArrayFeatureExtractor", _ML),
    **_listed(_step, kept, "Binarizer Imputer Scaler", _ML),
    **_listed(_step, regressed, "TreeEnsembleRegressor", _ML),
    (_ML, "TreeEnsembleClassifier"): _step(classified),
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
