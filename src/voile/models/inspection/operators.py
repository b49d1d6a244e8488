"""What operators of ONNX do to a batch: a rule for each that is known.

`Batch` is a tensor whose first axis is the batch and whose slices depend on one row each, `Fixed`
does not depend on the rows at all. A rule says what an operator makes of their shapes, from its
axes and attributes, and refuses what it does not know: a batch where something fixed belongs, an
axis that is the batch, an output beside the first. Where all inputs are fixed there is no batch,
and no rule fits. What becomes of rounding is told in `voile.models.inspection.graphs`.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

# --- Whether a class is a package's own, and not one that only says so ---------------------------


def is_of(package: str, kind: type) -> bool:
    """Whether `package` has this very class under the name that it bears."""
    home = kind.__module__
    if home != package and not home.startswith(f"{package}."):
        return False
    found: object = sys.modules.get(home)
    for part in kind.__qualname__.split("."):
        found = getattr(found, part, None)
    return found is kind


def is_listed(kind: type, listed: Mapping[str, Iterable[str]]) -> bool:
    """Whether this very class is in a list of modules and names; loads none of the modules.

    No subclass is: it may do anything.
    """
    return any(
        kind.__name__ in names and getattr(sys.modules.get(module), kind.__name__, None) is kind
        for module, names in listed.items()
    )


def is_numpys(function: object) -> bool:
    """Whether this is a function of numpy's or scipy's that takes each number by itself.

    Anybody can make a `ufunc` of a function of their own (`numpy.frompyfunc`).
    """
    name = getattr(function, "__name__", "")
    homes = (sys.modules.get("numpy"), sys.modules.get("scipy.special"))
    return (
        isinstance(function, np.ufunc)
        and function.signature is None
        and any(getattr(home, name, None) is function for home in homes)
    )


# --------------------------------------------------------------------------------------------------


# --- How a rule says that it does not know -------------------------------------------------------


T = TypeVar("T")


class Unsure(Exception):
    """No rule says that rows stay apart."""


def sure(found: T, holds: bool) -> T:
    """`found`, if the condition holds that it rests on."""
    if not holds:
        raise Unsure
    return found


# --------------------------------------------------------------------------------------------------


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
