"""What a view is made of, and how parts of it are chosen and combined."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from voile.core.errors import InvalidInput
from voile.core.explanation import Explanation
from voile.core.explanation_checks import Attributions, positions
from voile.core.row_note import KnownNote, Note
from voile.python.view.cells import cell_text

if TYPE_CHECKING:
    from voile.app.explain import ReleasedExplanation

AXES: Final = ("rows", "features", "outputs")
ROW, FEATURE, OUTPUT = range(3)
_COMBINED: Final = "{name} of all {axis}"
_ADDITIVE: Final = ("mean", "sum")
"""Base value and contributions still add up to a prediction after these."""

Reduce: TypeAlias = Callable[[NDArray[Any]], NDArray[Any]]
"""Combines an array along one axis, which stays with one entry."""


@dataclass(frozen=True)
class Step:
    """Something that was done to an explanation; shap reads axis labels of a plot from it.

    Args:
        name: of the operation, as shap calls it.
        prev_shape: shape before.
        collapsed_instances: whether all rows became one.
    """

    name: str
    prev_shape: tuple[int, ...]
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)
    collapsed_instances: bool = False


@dataclass(frozen=True, eq=False)
class ViewState:
    """One explanation, which of its axes are dropped, and what came with it.

    Args:
        core: always (rows, features, outputs).
        dropped: axes with one entry that a reader does not see.
        index: labels of the rows: those of a pandas table, else their numbers.
        display: the rows as people wrote them, shape (rows, features).
        steps: what was done so far.
        whole: whether it still is the explanation that was released, uncut.
    """

    core: Explanation
    dropped: frozenset[int]
    index: Any
    display: NDArray[Any] | None = None
    released: ReleasedExplanation | None = None
    receipt: Callable[[], Any] | None = None
    method: str = ""
    steps: tuple[Step, ...] = ()
    whole: bool = True

    # --- without dropped axes ---------------------------------------------------------------------

    @property
    def visible(self) -> tuple[int, ...]:
        return tuple(axis for axis in range(3) if axis not in self.dropped)

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.core.shape[axis] for axis in self.visible)

    def seen(self, array: NDArray[Any] | None, axes: Sequence[int] = (0, 1, 2)) -> Any:
        """An array without dropped axes; a number if none is left."""
        if array is None:
            return None
        places = [0 if axis in self.dropped else slice(None) for axis in axes]
        return array[tuple(places)]

    def names(self, axis: int) -> str | list[str]:
        """Of features or outputs: a list, or the one name of a dropped axis."""
        names = self.core.feature_names if axis == FEATURE else self.core.output_names
        return names[0] if axis in self.dropped else list(names)

    @property
    def categories(self) -> frozenset[str]:
        """Features whose values are words."""
        if self.display is None:
            return frozenset()
        named = zip(self.core.feature_names, self.display.T, strict=True)
        return frozenset(name for name, cells in named if any(isinstance(c, str) for c in cells))

    @cached_property
    def display_data(self) -> NDArray[Any] | None:
        """Rows in numbers and words alone: shap draws no dates, and no None."""
        if self.display is None:
            return None
        cells = [_drawable(cell) for cell in self.display.flat]
        rows = np.fromiter(cells, dtype=object, count=len(cells)).reshape(self.display.shape)
        rows.flags.writeable = False
        return rows

    # --- parts ------------------------------------------------------------------------------------

    def chosen(self, item: Any) -> Self:
        """A part; an axis that is chosen by one number or one name is dropped, as numpy does."""
        selections: list[Any] = [slice(None)] * 3
        dropped = set(self.dropped)
        for axis, each in zip(self.visible, self._expanded(item), strict=False):
            selections[axis] = each = _plain(each)
            if isinstance(each, str | int | np.integer):
                dropped.add(axis)
                if axis == ROW and isinstance(each, str):
                    raise InvalidInput(f"rows have no names; a feature is chosen by [:, {each!r}]")
        rows, features = (self._places(axis, selections[axis]) for axis in (ROW, FEATURE))
        core = self.core[tuple(selections)]
        if len(set(features)) < self.core.shape[FEATURE]:
            core = core.with_notes(_noted(core.notes, KnownNote.NOT_ADDITIVE))
        return replace(
            self,
            core=core,
            dropped=frozenset(dropped),
            display=None if self.display is None else self.display[np.ix_(rows, features)],
            index=self.index[rows],
            steps=(*self.steps, Step("__getitem__", self.shape, (item,))),
            whole=False,
        )

    def of_output(self, name: str) -> Self:
        """One output, as if the model had no other; what was released stays what it is."""
        return replace(self.chosen((..., name)), steps=(), whole=True)

    def _expanded(self, item: Any) -> list[Any]:
        """One selection for each axis that is seen; `...` stands for all between."""
        items = list(item) if isinstance(item, tuple) else [item]
        dots = [place for place, each in enumerate(items) if each is Ellipsis]
        if len(dots) > 1 or len(items) - len(dots) > len(self.visible):
            seen = ", ".join(AXES[axis] for axis in self.visible) or "nothing more"
            raise InvalidInput(f"this explanation has {seen} to choose from, found {item!r}")
        if dots:
            missing = len(self.visible) - len(items) + 1
            items[dots[0] : dots[0] + 1] = [slice(None)] * missing
        return items

    def _places(self, axis: int, selection: Any) -> NDArray[np.intp]:
        names = self.core.feature_names if axis == FEATURE else ()
        return positions(AXES[axis][:-1], selection, self.core.shape[axis], names)

    # --- combinations -----------------------------------------------------------------------------

    def absolute(self) -> Self:
        """Sizes; their ± is at most that of the values."""
        core = replace(
            self.core,
            values=np.abs(self.core.values),
            notes=_noted(self.core.notes, KnownNote.NOT_ADDITIVE),
        )
        return replace(self, core=core, steps=self._then("abs"), whole=False)

    def reduced(self, name: str, axis: int, reduce: Reduce) -> Self:
        """One entry in place of all along an axis, which is dropped.

        It stays as uncertain as it was, or is said to be more so: see `_reduced_errors`.
        """
        place = self.axis_at(axis)
        said = (_COMBINED.format(name=name, axis=AXES[place]),)
        errors, widths = self._reduced_errors(name, place, reduce)
        core = replace(
            self.core,
            values=reduce(self.core.values),
            base_values=self._reduced_base(place, reduce),
            data=None if self._are_sizes(name, place) else self._reduced_data(place, reduce),
            feature_names=said if place == FEATURE else self.core.feature_names,
            output_names=said if place == OUTPUT else self.core.output_names,
            standard_errors=errors,
            half_widths=widths,
            notes=self._reduced_notes(name, place),
        )
        return replace(
            self,
            core=core,
            dropped=self.dropped | {place},
            display=self.display if place == OUTPUT else None,
            index=self.index[:1] if place == ROW else self.index,
            steps=self._then(name, collapsed=place == ROW, axis=axis),
            whole=False,
        )

    def axis_at(self, axis: int) -> int:
        """Which axis of the core this is, counted among those that are seen."""
        if not isinstance(axis, int) or not -len(self.visible) <= axis < len(self.visible):
            found = ", ".join(f"{n} ({AXES[a]})" for n, a in enumerate(self.visible))
            raise InvalidInput(f"axis must be one of {found or 'none'}, found {axis!r}")
        return self.visible[axis]

    def _then(self, name: str, *, collapsed: bool = False, **kwargs: Any) -> tuple[Step, ...]:
        return (*self.steps, Step(name, self.shape, (), kwargs, collapsed))

    def _are_sizes(self, name: str, axis: int) -> bool:
        """Whether it gives what a population is told: the mean size of each contribution."""
        return axis == ROW and name == "mean" and any(step.name == "abs" for step in self.steps)

    def _reduced_errors(
        self, name: str, axis: int, reduce: Reduce
    ) -> tuple[Attributions | None, Attributions | None]:
        """Standard errors and half widths of a combination, at most.

        Noise is symmetric and log-concave, as normal and Laplace noise are. A mean or a sum is off
        by at most the mean or the sum of the ±. A maximum, a minimum or a percentile is off by no
        more than the worst of n entries. With log-concave tails, an entry is off by more than t
        times its ± with a chance of at most 0.05^t. So with 95 % none of the n is off by more than
        1 + ln n / ln 20 times its ±.
        """
        errors, reach = self.core.standard_errors, self.core.reach
        if name in _ADDITIVE:
            widths = self.core.half_widths
            return (
                None if errors is None else reduce(errors),
                None if widths is None else reduce(widths),
            )
        worst = 1 + math.log(self.core.shape[axis]) / math.log(20)
        return None, None if reach is None else worst * reach.max(axis=axis, keepdims=True)

    def _reduced_base(self, axis: int, reduce: Reduce) -> NDArray[Any]:
        base = self.core.base_values[:, np.newaxis, :]
        reduced = base if axis == FEATURE else reduce(base)
        return reduced[:, 0, :]

    def _reduced_data(self, axis: int, reduce: Reduce) -> NDArray[Any] | None:
        data = self.core.data
        if data is None or axis == OUTPUT:
            return data
        if axis == FEATURE or data.dtype.kind == "U" or self.categories:
            return None  # there is no mean of words, and features have different units
        return reduce(data[:, :, np.newaxis])[:, :, 0]

    def _reduced_notes(self, name: str, axis: int) -> tuple[Note, ...]:
        """Notes about single rows are about nothing once the rows became one."""
        notes = self.core.notes
        if axis == ROW:
            notes = tuple(note for note in notes if isinstance(note, str))
        if self._are_sizes(name, axis):
            kept = tuple(note for note in notes if note is not KnownNote.NOT_ADDITIVE)
            return _noted(kept, KnownNote.ABSOLUTE)
        additive = name in _ADDITIVE and axis != OUTPUT
        return notes if additive else _noted(notes, KnownNote.NOT_ADDITIVE)


def first_state(
    explanation: Explanation,
    display: Any,
    released: ReleasedExplanation | None,
    receipt: Callable[[], Any] | None,
    method: str,
) -> ViewState:
    """All of an explanation, as shap would show it."""
    _check_core(explanation)
    rows = _shown_rows(display, explanation)
    labelled = rows is not None and hasattr(display, "iloc")
    index = display.index if labelled else np.arange(len(explanation))
    return ViewState(
        explanation, _dropped_axes(explanation), index, rows, released, receipt, method
    )


def _check_core(explanation: object) -> None:
    if not issubclass(type(explanation), Explanation):
        raise InvalidInput(
            f"expected a voile.Explanation, found {type(explanation).__name__}; one of shap is "
            "read with voile.Explanation.from_shap"
        )


def _dropped_axes(explanation: Explanation) -> frozenset[int]:
    """Those of a single output, and of a population, which has one size for each feature."""
    population = len(explanation) == 1 and explanation.carries(KnownNote.ABSOLUTE)
    rows = {ROW} if population else set()
    return frozenset(rows | ({OUTPUT} if explanation.shape[2] == 1 else set()))


def _shown_rows(display: Any, explanation: Explanation) -> NDArray[Any] | None:
    """Rows as people wrote them; never beside an explanation whose rows are protected."""
    hidden = explanation.data is None and bool(explanation.guarantees)
    if display is None or hidden:
        return None
    rows = np.array(display, dtype=object)
    if rows.shape != explanation.shape[:2]:
        raise InvalidInput(
            f"display must have shape {explanation.shape[:2]}, as the rows have, found {rows.shape}"
        )
    rows.flags.writeable = False
    return rows


def _drawable(cell: Any) -> Any:
    return cell if isinstance(cell, str | int | float | np.number | np.bool_) else cell_text(cell)


def _noted(notes: tuple[Note, ...], note: KnownNote) -> tuple[Note, ...]:
    return notes if note in notes else (*notes, note)


def _plain(selection: Any) -> Any:
    """Positions or a mask as numpy has them, of whatever array or series they came in."""
    if isinstance(selection, str | slice | int | np.integer | list | np.ndarray):
        found = selection
    elif hasattr(selection, "__array__"):
        found = np.asarray(selection)
    else:
        return selection
    if isinstance(found, np.ndarray) and found.ndim == 0:
        return found.item()
    return found
