"""Pictures of a view: ours where there is one, else those of shap, with the guarantee below."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol

from voile.core.description import Describable
from voile.core.errors import InvalidInput
from voile.core.optional import optional
from voile.views import plots
from voile.views.plots.figures import drawn_by_shap
from voile.views.plots.style import write_promise

if TYPE_CHECKING:
    from collections.abc import Callable

    from matplotlib.figure import Figure

    from voile.core.explanation import Explanation

_OURS: Final[dict[str, Callable[..., Figure]]] = {
    "bar": plots.bar,
    "beeswarm": plots.beeswarm,
    "waterfall": plots.waterfall,
    "whiskers": plots.whiskers,
}
_OF_SHAP: Final = ("decision", "force", "heatmap", "scatter", "violin")
KINDS: Final = (*_OURS, *_OF_SHAP)
_SIZE: Final = (8.0, 4.8)


class DrawableExplanation(Describable, Protocol):
    """An `ExplanationView`, as far as pictures read it."""

    @property
    def explanation(self) -> Explanation: ...

    @property
    def values(self) -> Any: ...

    @property
    def data(self) -> Any: ...

    @property
    def display_data(self) -> Any: ...

    @property
    def ndim(self) -> int: ...


def draw(view: DrawableExplanation, kind: str | None, options: dict[str, Any]) -> Figure:
    """One kind of picture; by default what suits the number of rows and outputs."""
    chosen = _usual(view) if kind is None else kind
    if chosen in _OURS:
        return _OURS[chosen](view, **options)
    if chosen not in _OF_SHAP:
        raise InvalidInput(f"kind must be one of {', '.join(KINDS)}, found {kind!r}")
    _check_drawable(view, chosen)
    return _drawn_by_shap(view, chosen, options)


def _usual(view: DrawableExplanation) -> str:
    """One prediction is drawn from its base value on; anything else as bars."""
    first, *others = view.describe().outputs
    return "waterfall" if first.prediction is not None and not others else "bar"


def _check_drawable(view: DrawableExplanation, kind: str) -> None:
    rows, features, outputs = view.explanation.shape
    if outputs > 1:
        names = ", ".join(view.explanation.output_names)
        raise InvalidInput(f"choose one output: {names} (why[..., name])")
    if kind == "force" and rows > 1:
        raise InvalidInput(f"a force plot shows one row, found {rows}; choose one: why[0]")
    if kind in ("heatmap", "violin", "scatter") and rows == 1:
        raise InvalidInput(f"a {kind} plot needs several rows; draw one row as a waterfall")
    if kind in ("heatmap", "violin", "decision", "force") and features == 1:
        raise InvalidInput(
            f"a {kind} plot needs several features, found one; draw it as a bar, a beeswarm or a "
            "scatter plot"
        )
    if kind == "scatter" and view.data is None:
        raise InvalidInput("a scatter plot shows values of rows, and these rows are not shown")


def _drawn_by_shap(view: DrawableExplanation, kind: str, options: dict[str, Any]) -> Figure:
    shap = optional("shap", extra="explain")
    pyplot = optional("matplotlib.pyplot", extra="explain")
    with drawn_by_shap(*_SIZE) as figure:
        _call(shap.plots, kind, view, options)
        drawn: Figure = pyplot.gcf()
        if drawn is not figure:  # some begin one of their own
            pyplot.close(drawn)
    if drawn is not figure:
        pyplot.close(figure)
    if kind == "force":
        drawn.set_layout_engine("constrained")
    elif kind == "heatmap":
        drawn.axes[0].set_aspect("auto")  # else its labels do not fit
    write_promise(drawn, view.describe())
    return drawn


def _call(shap_plots: Any, kind: str, view: DrawableExplanation, options: dict[str, Any]) -> None:
    if kind == "decision":
        shown = view.data if view.display_data is None else view.display_data
        given = {"feature_names": list(view.explanation.feature_names), "features": shown}
        base = float(view.explanation.base_values[0, 0])
        shap_plots.decision(base, view.values, show=False, **(given | options))
    elif kind == "force":
        shap_plots.force(view, matplotlib=True, show=False, **options)
    elif kind == "scatter" and view.ndim == 1:
        axes = optional("matplotlib.pyplot", extra="explain").gca()
        shap_plots.scatter(view, show=False, **({"ax": axes} | options))
    else:
        getattr(shap_plots, kind)(view, show=False, **options)
