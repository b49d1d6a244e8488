"""`ExplanationView`: what explainers return in Python, with the manners of `shap.Explanation`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import FrozenInstanceError, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from voile.core.errors import InvalidInput
from voile.core.explanation import Explanation
from voile.core.optional import optional
from voile.core.rendering import render_html
from voile.python.view.state import FEATURE, OUTPUT, ROW, Reduce, Step, ViewState, first_state
from voile.python.view.text import describe_state, written

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from voile.app.explain import ReleasedExplanation
    from voile.core.description import Description
    from voile.core.guarantee import Guarantee
    from voile.core.schema import Schema


class ExplanationView:
    """An explanation as people of shap, pandas and numpy know it; it cannot be changed.

    Axes with one entry are dropped where shap drops them: a model with one output gives
    `(rows, features)`, and `why[0]` gives `(features,)`. Choosing and combining is post-processing:
    the guarantees stay as they are. The explanation with all three axes is `why.explanation`.

    Args:
        explanation: what to show.
        display: the rows as people wrote them, shape (rows, features): texts, dates, numbers. A
            pandas table keeps its index.
        released: what was charged and put on record, if anything was.
        receipt: makes the receipt of the release when somebody asks for it.
        method: how the values were computed.
        output: show this output only.

    >>> from voile import Explanation
    >>> core = Explanation(values=[[0.2, -0.1], [0.4, 0.3]], base_values=0.3,
    ...                    feature_names=("age", "bmi"), data=[[71, 24], [80, 31]])
    >>> why = ExplanationView(core)
    >>> why.shape, why[0].shape, why[:, "age"].values.tolist()
    ((2, 2), (2,), [0.2, 0.4])
    >>> why.abs.mean(0).values.round(2).tolist()
    [0.3, 0.2]
    >>> print(why[0])
    no privacy guarantee
    row 0, 2 features, output: output
    output: base 0.3 → prediction 0.4
    <BLANKLINE>
      feature  value  contribution
      age      71             +0.2
      bmi      24             -0.1
    """

    # shap's force and violin plots look at the name of the type.
    __qualname__ = "Explanation"
    __slots__ = ("__weakref__", "_state")

    view: ClassVar[str] = "explanation in Python"
    _state: ViewState

    def __init__(
        self,
        explanation: Explanation,
        *,
        display: Any = None,
        released: ReleasedExplanation | None = None,
        receipt: Callable[[], Any] | None = None,
        method: str = "",
        output: str | None = None,
    ) -> None:
        state = first_state(explanation, display, released, receipt, method)
        object.__setattr__(self, "_state", state if output is None else state.of_output(output))

    @classmethod
    def _from_state(cls, state: ViewState) -> Self:
        made = object.__new__(cls)
        object.__setattr__(made, "_state", state)
        return made

    def __setattr__(self, name: str, value: object) -> None:
        raise FrozenInstanceError(f"an explanation cannot be changed; {name!r} stays as it is")

    def __delattr__(self, name: str) -> None:
        raise FrozenInstanceError(f"an explanation cannot be changed; {name!r} stays as it is")

    def __reduce__(self) -> tuple[Any, ...]:
        """In another process it is what it was; a receipt is issued where the budget is open."""
        state = self._state
        kept = state if state.receipt is None else replace(state, receipt=_left_behind)
        return _restored, (kept,)

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, _memo: object) -> Self:
        return self

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        """`isinstance` accepts it as a `voile.Explanation` and, once shap is there, as shap's."""
        return _stand_in(getattr(sys.modules.get("shap"), "Explanation", None))

    # --- as shap has it ---------------------------------------------------------------------------

    @property
    def explanation(self) -> Explanation:
        """The same with all three axes: (rows, features, outputs)."""
        return self._state.core

    @property
    def values(self) -> Any:
        """Contributions: (rows, features), (rows, features, outputs), or less for a part."""
        return self._state.seen(self._state.core.values)

    @property
    def base_values(self) -> Any:
        """What contributions are measured from: one number for each row, or each row and output."""
        return self._state.seen(self._state.core.base_values, (ROW, OUTPUT))

    @property
    def data(self) -> Any:
        """The rows as the model sees them, categories as numbers; None where they are protected."""
        return self._state.seen(self._state.core.data, (ROW, FEATURE))

    @property
    def display_data(self) -> Any:
        """The rows as people wrote them, dates as words; None if `data` says the same."""
        return self._state.seen(self._state.display_data, (ROW, FEATURE))

    @property
    def feature_names(self) -> str | list[str]:
        """One name per feature; a text for a single column."""
        return self._state.names(FEATURE)

    @property
    def output_names(self) -> str | list[str]:
        """One name per output; a text for a single one."""
        return self._state.names(OUTPUT)

    @property
    def shape(self) -> tuple[int, ...]:
        """Of `values`."""
        return self._state.shape

    @property
    def ndim(self) -> int:
        """How many axes `values` has."""
        return len(self.shape)

    @property
    def op_history(self) -> list[Step]:
        """What was done to it; shap labels its axes with this."""
        return list(self._state.steps)

    @property
    def lower_bounds(self) -> Any:
        """With 95 % each contribution is above this; None if nothing is uncertain."""
        reach = self._state.core.reach
        return None if reach is None else self._state.seen(self._state.core.values - reach)

    @property
    def upper_bounds(self) -> Any:
        """With 95 % each contribution is below this; None if nothing is uncertain."""
        reach = self._state.core.reach
        return None if reach is None else self._state.seen(self._state.core.values + reach)

    # --- what voile adds --------------------------------------------------------------------------

    @property
    def guarantees(self) -> tuple[Guarantee, ...]:
        """What is promised about everything in here; empty if nothing is."""
        return self._state.core.guarantees

    @property
    def guarantee(self) -> Guarantee | None:
        """The only guarantee; None if there is none."""
        found = self.guarantees
        if len(found) > 1:
            raise InvalidInput(f"there are {len(found)} guarantees; read all of them: .guarantees")
        return found[0] if found else None

    @property
    def half_widths(self) -> Any:
        """With 95 % each contribution lies within ± this; None if nothing is uncertain."""
        return self._state.seen(self._state.core.half_widths)

    @property
    def standard_errors(self) -> Any:
        """How uncertain each contribution is; None if nothing is known."""
        return self._state.seen(self._state.core.standard_errors)

    @property
    def notes(self) -> tuple[Any, ...]:
        """What must travel with the values."""
        return self._state.core.notes

    @property
    def categories(self) -> frozenset[str]:
        """Features whose values are words: none is high or low."""
        return self._state.categories

    @property
    def method(self) -> str:
        """How the values were computed."""
        return self._state.method

    @property
    def released(self) -> ReleasedExplanation | None:
        """What was charged and put on record; None if nothing was."""
        return self._state.released

    @property
    def receipt(self) -> Any:
        """Proves that it is on record, with `.save(path)`; None if it is not."""
        return None if self._state.receipt is None else self._state.receipt()

    # --- parts and combinations -------------------------------------------------------------------

    def __getitem__(self, item: Any) -> Self:
        """A part: by number, slice, name, mask or list; `...` stands for the axes between."""
        return self._from_state(self._state.chosen(item))

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("a single contribution has no length")
        return self.shape[0]

    def __iter__(self) -> Iterator[Self]:
        return (self[place] for place in range(len(self)))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        array = np.asarray(self.values, dtype)
        return array.copy() if copy else array

    def __float__(self) -> float:
        return float(np.asarray(self))

    @property
    def abs(self) -> Self:
        """Sizes of contributions."""
        return self._from_state(self._state.absolute())

    def mean(self, axis: int) -> Self:
        """The mean along an axis."""
        return self._reduced("mean", axis, np.mean)

    def sum(self, axis: int) -> Self:
        """The sum along an axis."""
        return self._reduced("sum", axis, np.sum)

    def max(self, axis: int) -> Self:
        """The largest along an axis."""
        return self._reduced("max", axis, np.max)

    def min(self, axis: int) -> Self:
        """The smallest along an axis."""
        return self._reduced("min", axis, np.min)

    def percentile(self, q: float, axis: int) -> Self:
        """A percentile along an axis."""
        return self._reduced("percentile", axis, lambda *a, **k: np.percentile(a[0], q, **k))

    def _reduced(self, name: str, axis: int, function: Any) -> Self:
        place = self._state.axis_at(axis)
        reduce: Reduce = lambda array: function(array, axis=place, keepdims=True)  # noqa: E731
        return self._from_state(self._state.reduced(name, axis, reduce))

    @property
    def argsort(self) -> NDArray[np.intp]:
        """Positions from the smallest to the largest: `why[:, why.abs.mean(0).argsort[-1]]`."""
        return np.argsort(self.values)

    def sample(self, max_samples: int, replace: bool = False, random_state: int = 0) -> Self:
        """Some rows at random, the same ones for the same `random_state`."""
        generator = np.random.default_rng(random_state)
        size = max_samples if replace else min(max_samples, len(self))
        return self[generator.choice(len(self), size=size, replace=replace)]

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        mine, theirs = self._state, other._state
        return mine.core == theirs.core and mine.dropped == theirs.dropped

    __hash__ = None  # type: ignore[assignment]

    # --- as something else ------------------------------------------------------------------------

    def to_shap(self) -> Any:
        """As a `shap.Explanation` of its own; guarantees stay behind."""
        shap = optional("shap", extra="explain")
        return shap.Explanation(
            values=np.array(self.values),
            base_values=np.array(self.base_values),
            data=None if self.data is None else np.array(self.data),
            display_data=None if self.display_data is None else np.array(self.display_data),
            feature_names=self.feature_names,
            output_names=self.output_names,
        )

    def to_frame(self, *, long: bool = False) -> Any:
        """As a pandas table, with the guarantee in `.attrs`.

        Many rows: a row for each and a column for each feature, with the index of the table that
        was explained. One row (`why[0]`): a row for each feature, with its value.

        Args:
            long: one contribution in each row, as plotting libraries want it.

        >>> from voile import Explanation
        >>> why = ExplanationView(Explanation(values=[[0.2, -0.1]], base_values=0.3,
        ...                                   feature_names=("age", "bmi"), data=[[71, 24]]))
        >>> print(why[0].to_frame())
                 value  contribution
        feature
        age       71.0           0.2
        bmi       24.0          -0.1
        """
        from voile.python.view.tables import frame_of, long_frame

        return long_frame(self._state) if long else frame_of(self._state)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON: the guarantees first, and nothing that is not there.

        >>> from voile import Explanation
        >>> core = Explanation(values=[[0.2]], base_values=0.3, feature_names=("age",))
        >>> ExplanationView(core)[0].to_dict()["values"]
        [0.2]
        """
        from voile.python.view.tables import plain

        return plain(self._state)

    def save(self, path: str | Path) -> Path:
        """Write the file that `voile.verify` and the command line open.

        What was released is written as it is on record, with all outputs. A part of it is written
        as that part.
        """
        state = self._state
        released = state.released if state.whole else None
        return (state.core if released is None else released.explanation).save(path)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read what `save` wrote."""
        return cls(Explanation.load(path))

    # --- looking at it ----------------------------------------------------------------------------

    def describe(
        self,
        row: int | None = None,
        *,
        output: str | None = None,
        most: int | None = None,
        schema: Schema | None = None,
    ) -> Description:
        """What it says, as data for every view: one row, or mean sizes over all rows."""
        return describe_state(self._state, row, output, most, schema)

    def plot(self, kind: str | None = None, **options: Any) -> Figure:
        """A figure: by default a waterfall for one row, bars for several rows or outputs.

        It shows itself in a notebook; elsewhere use `.savefig(path)`. The guarantee stands below.

        Args:
            kind: `bar`, `beeswarm`, `waterfall` or `whiskers`, which voile draws, or `decision`,
                `force`, `heatmap`, `scatter` or `violin`, which shap draws.
            options: of the function in `voile.plots` or `shap.plots`.

        >>> from voile import Explanation
        >>> why = ExplanationView(Explanation(values=[[0.2, -0.1]], base_values=0.3,
        ...                                   feature_names=("age", "bmi")))
        >>> why[0].plot().get_supxlabel()
        'no privacy guarantee'
        """
        from voile.python.view.plots import draw

        return draw(self, kind, options)

    def __repr__(self) -> str:
        """The guarantee first, then the largest contributions."""
        return written(self._state)

    def _repr_html_(self) -> str:
        return render_html(self)


def _restored(state: ViewState) -> ExplanationView:
    return ExplanationView._from_state(state)


def _left_behind() -> Any:
    raise InvalidInput(
        "this explanation comes out of a pickle, and its receipt is issued where its budget is "
        "open: save it there, why.receipt.save(path)"
    )


@cache
def _stand_in(shaps: type | None) -> type:
    """A class below `voile.Explanation` and shap's, which nothing is ever made of."""
    bases = (Explanation,) if shaps is None else (Explanation, shaps)
    return type(bases[-1])("Explanation", bases, {"__module__": "voile"})
