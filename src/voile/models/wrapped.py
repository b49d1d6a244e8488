"""The one adapter: a forward function, checked and clamped, with an identity."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from threading import Lock
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from voile.core.digest_names import digest_name
from voile.core.errors import InvalidInput
from voile.models.inspection import is_of
from voile.models.outputs import DeclaredOutputs, Outputs, Unbounded

# --- What the rest of voile knows about a model, whatever made it ---------------------------------


Rows: TypeAlias = NDArray[np.float64]
"""Shape (n, d): n inputs of d features."""

Presence: TypeAlias = NDArray[np.bool_]
"""Shape (n, d): which features of each row are in the coalition."""


@runtime_checkable
class Model(Protocol):
    """Batched predictions with a declared output set and an identity."""

    @property
    def output_names(self) -> tuple[str, ...] | None:
        """One name per output; None where the model has none (then they are numbered)."""

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """The columns the model was fitted on, in order, where it knows them."""

    @property
    def outputs(self) -> DeclaredOutputs:
        """Where outputs lie."""

    @property
    def digest(self) -> str:
        """SHA-256 (hex) of everything that determines the predictions."""

    def predict(self, rows: Rows) -> Outputs:
        """Outputs of shape (n, outputs): finite, and inside the declared set."""


@runtime_checkable
class DifferentiableModel(Model, Protocol):
    """A model that can also say how its outputs change with its inputs."""

    @property
    def has_gradient(self) -> bool:
        """Whether `gradient` can be called."""

    def gradient(self, rows: Rows, output: int) -> Rows:
        """The derivative of one output with respect to each feature, shape (n, d)."""


@runtime_checkable
class CoalitionModel(Protocol):
    """A surrogate that answers for rows of which only some features are present."""

    @property
    def output_names(self) -> tuple[str, ...] | None: ...

    @property
    def feature_names(self) -> tuple[str, ...] | None: ...

    def predict_present(self, rows: Rows, present: Presence) -> Outputs:
        """Outputs of shape (n, outputs) that do not depend on the features that are absent."""


Forward: TypeAlias = Callable[[Rows], Any]
"""Rows (n, d) to anything that numpy reads as (n, outputs) or (n,)."""


class InspectedForward(ABC):
    """A forward function of voile's own that can look into the model which it calls."""

    @abstractmethod
    def __call__(self, rows: Rows) -> Any: ...

    @abstractmethod
    def steady(self) -> Forward | None:
        """The same function, known to treat the rows of a batch one by one; None: it is not known.

        Where a row stands may change its answer by the rounding of double precision alone.
        """

    def class_labels(self) -> tuple[str, ...] | None:
        """Labels in the order of the outputs; empty if the model states none, None: not known."""
        return ()


Backward: TypeAlias = Callable[[Rows, int], Any]
"""Rows (n, d) and an output to its derivatives (n, d)."""


class Diagnostics:
    """What happened inside a model, for its owner only: these counts depend on the data."""

    def __init__(self) -> None:
        self._lock = Lock()
        self.rows = 0
        self.clamped = 0
        self.not_finite = 0

    def count(self, *, rows: int, clamped: int, not_finite: int) -> None:
        with self._lock:
            self.rows += rows
            self.clamped += clamped
            self.not_finite += not_finite

    def __repr__(self) -> str:
        return (
            f"Diagnostics(rows={self.rows}, clamped={self.clamped}, not_finite={self.not_finite})"
        )


@digest_name("voile.models.wrapped.Chosen")
@dataclass(frozen=True)
class ChosenOutputs(InspectedForward):
    """Some of the outputs."""

    forward: Forward
    places: tuple[int, ...]

    def __call__(self, rows: Rows) -> Any:
        found = np.asarray(self.forward(rows))
        return (found[:, np.newaxis] if found.ndim == 1 else found)[:, list(self.places)]

    def steady(self) -> Forward | None:
        inner = steady(self.forward)
        return None if inner is None else ChosenOutputs(inner, self.places)


def chosen_places(forward: Forward) -> tuple[int, ...] | None:
    """Which outputs of the whole model were chosen (`WrappedModel.only`); None: all of them."""
    if not isinstance(forward, ChosenOutputs):
        return None
    inner = chosen_places(forward.forward)
    return forward.places if inner is None else tuple(inner[place] for place in forward.places)


def steady(forward: Forward) -> Forward | None:
    """See `InspectedForward.steady`; one that somebody derived from ours is somebody's own."""
    if not isinstance(forward, InspectedForward) or not is_of("voile", type(forward)):
        return None
    return forward.steady()


@digest_name("voile.models.wrapped.WrappedModel")
@dataclass(frozen=True, kw_only=True)
class WrappedModel:
    """A model as the rest of voile sees it; made by `wrap`.

    Args:
        forward: the predictions.
        identity: gives the digest; called once, when it is first asked for.
        backward: the gradients, if the model has them.
        width: how many features it takes, where that is known.
        feature_names, output_names, outputs: see `Model`.
        source: what was wrapped, for methods that need it itself.
        total: outputs that are not finite become the centre of the output set instead of an error.
        treats_rows_independently: somebody declares that no row of a batch has a part in another's
            answer; see `row_wise`.
    """

    forward: Forward
    identity: Callable[[], str]
    backward: Backward | None = None
    width: int | None = None
    feature_names: tuple[str, ...] | None = None
    output_names: tuple[str, ...] | None = None
    outputs: DeclaredOutputs = field(default_factory=Unbounded)
    source: object = None
    total: bool = False
    treats_rows_independently: bool = False
    diagnostics: Diagnostics = field(default_factory=Diagnostics, repr=False, compare=False)

    def predict(self, rows: Rows) -> Outputs:
        """Finite outputs inside the declared set, shape (n, outputs)."""
        given = self._outputs(rows)
        finite = np.isfinite(given)
        not_finite = 0
        if not finite.all():
            not_finite = int((~finite).any(axis=1).sum())
            given = self._without_gaps(given, finite, not_finite)
        inside, clamped = self.outputs.clamp(given)
        self.diagnostics.count(rows=len(rows), clamped=clamped, not_finite=not_finite)
        return inside

    def _outputs(self, rows: Rows) -> Outputs:
        if self.width is not None and rows.shape[1] != self.width:
            raise InvalidInput(
                f"the model takes {self.width} features, found rows with {rows.shape[1]}"
            )
        found = np.asarray(self.forward(rows))
        if found.dtype.kind not in "fiub":
            raise InvalidInput(f"the model must return numbers, found an array of {found.dtype}")
        if found.ndim == 1:
            found = found[:, np.newaxis]
        expected = len(self.output_names) if self.output_names else None
        if (
            found.ndim != 2
            or len(found) != len(rows)
            or found.shape[1] != (expected or max(found.shape[1], 1))
        ):
            raise InvalidInput(
                f"for {len(rows)} rows the model must return an array of shape "
                f"({len(rows)}, {expected or 'outputs'}), found {found.shape}"
            )
        return found.astype(np.float64, copy=False)

    def _without_gaps(self, values: Outputs, finite: Any, count: int) -> Outputs:
        if not self.total:
            raise InvalidInput(
                f"the model returned NaN or infinity for {count} of {len(values)} rows; "
                "check its inputs (scaling, missing values), or use `model.made_total()` to put "
                "the centre of the declared output set in their place"
            )
        broken = ~finite.all(axis=1)
        return np.where(broken[:, np.newaxis], self.outputs.centre(values.shape[1]), values)

    @property
    def has_gradient(self) -> bool:
        return self.backward is not None

    def gradient(self, rows: Rows, output: int) -> Rows:
        """The derivative of one output, before any clamping, with respect to each feature."""
        if self.backward is None:
            raise InvalidInput(
                "this model has no gradients; wrap a torch module, or pass `gradient=` to `wrap`"
            )
        found = np.asarray(self.backward(rows, output), dtype=np.float64)
        if found.shape != rows.shape or not np.isfinite(found).all():
            raise InvalidInput(
                f"the gradient must be finite and of shape {rows.shape}, found {found.shape}"
            )
        return found

    @property
    def class_labels(self) -> tuple[str, ...] | None:
        """Labels that the model states beside `output_names`; see `InspectedForward`."""
        return self.forward.class_labels() if isinstance(self.forward, InspectedForward) else ()

    @cached_property
    def digest(self) -> str:
        return self.identity()

    def only(self, *names: str) -> WrappedModel:
        """The same model with some of its outputs, for example one class of a classifier."""
        known = self.output_names or ()
        unknown = [name for name in names if name not in known]
        if unknown or not names:
            raise InvalidInput(
                f"choose at least one of the outputs {list(known)}, found {list(names)}; "
                "outputs are named by `wrap(model, output_names=...)`"
            )
        places = tuple(known.index(name) for name in names)
        forward, backward, whole = self.forward, self.backward, self.digest
        return replace(
            self,
            forward=ChosenOutputs(forward, places),
            backward=None
            if backward is None
            else lambda rows, output: backward(rows, places[output]),
            identity=lambda: f"{whole}/{','.join(map(str, places))}",
            output_names=names,
            outputs=self.outputs.selected(places),
        )

    def made_total(self) -> WrappedModel:
        """The same model without errors about values: gaps become the centre of the output set."""
        return replace(self, total=True)


# --- Does a model treat the rows of a batch one by one? -------------------------------------------
# A guarantee about one of m rows says that it moves only its own share of a mean. That is false of
# a model whose answer for one row depends on the others in the batch: a maximum over the batch, or
# its mean and variance, hand one row's value to all. Whether a model does so cannot be found out
# by trying. So it is either *known* from what it is made of, from lists of exact types whose
# settings are looked at (`voile.models.inspection`); or *declared* by whoever wraps it, which
# guarantees name among their assumptions; or neither, and then nobody hands it two protected rows
# in one call.
#
# Matrix products round differently in another place of a batch, and a step behind one (a label, a
# tree) makes a jump of that. So known means steady as well: a row's place changes its answer by
# the rounding of double precision alone, far below the slack in sensitivities (docs/decisions/row-
# wise-models.md). Networks in single precision are asked in double.


class RowWise(StrEnum):
    """Why a model is taken to treat the rows of a batch one by one."""

    KNOWN = "known from what the model is made of"
    DECLARED = "declared by whoever wrapped the model"


def row_wise(model: Model) -> RowWise | None:
    """Why rows may be handed to `model` together; None: there is no reason to think so."""
    if known_model(model) is not None:
        return RowWise.KNOWN
    declared = type(model) is WrappedModel and model.treats_rows_independently
    return RowWise.DECLARED if declared else None


def known_model(model: Model) -> WrappedModel | None:
    """The model to hand rows to together, if it is known: itself, or it in double precision."""
    if type(model) is not WrappedModel:
        return None
    forward = steady(model.forward)
    return None if forward is None else replace(model, forward=forward)
