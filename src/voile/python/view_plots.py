"""Pictures of a view: ours where there is one, else shap's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from voile.core.errors import InvalidInput
from voile.views import plots

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from voile.python.view import ExplanationView

_OURS = {
    "bar": plots.bar,
    "beeswarm": plots.beeswarm,
    "waterfall": plots.waterfall,
    "whiskers": plots.whiskers,
}


def draw(view: ExplanationView, kind: str | None, options: dict[str, Any]) -> Figure:
    chosen = kind or ("waterfall" if view.explanation.shape[0] == 1 else "bar")
    if chosen not in _OURS:
        raise InvalidInput(f"kind must be one of {', '.join(_OURS)}, found {kind!r}")
    return _OURS[chosen](view.explanation, **options)  # type: ignore[operator,no-any-return]
