"""Figures that belong to whoever gets them: pyplot and numpy are left as they were.

In a notebook, figures of pyplot are shown below the cell that made them. There, pyplot knows ours.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from io import BytesIO
from typing import TYPE_CHECKING, Final

import numpy as np

from voile.core.optional import optional

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_NOTEBOOK_DPI: Final = 110


def empty_figure(width: float, height: float, layout: str | None = "constrained") -> Figure:
    """A figure outside pyplot, so that nothing has to be closed; in a notebook, one of pyplot."""
    picture = _picture_class()
    if not in_notebook():
        return picture(figsize=(width, height), layout=layout)  # type: ignore[arg-type]
    pyplot = optional("matplotlib.pyplot", extra="explain")
    figure: Figure = pyplot.figure(figsize=(width, height), layout=layout, FigureClass=picture)
    return figure


def in_notebook() -> bool:
    """Whether figures of pyplot are shown below the cell that made them."""
    if "ipykernel" not in sys.modules:
        return False
    return "inline" in optional("matplotlib.pyplot", extra="explain").get_backend()


@contextmanager
def drawn_by_shap(width: float, height: float) -> Iterator[Figure]:
    """A current figure for shap, which draws with pyplot and shuffles with numpy's generator.

    Both are put back as they were, and the same call gives the same picture.
    """
    pyplot = optional("matplotlib.pyplot", extra="explain")
    before = pyplot.gcf() if pyplot.get_fignums() else None
    figure: Figure = pyplot.figure(
        figsize=(width, height), layout="constrained", FigureClass=_picture_class()
    )
    try:
        with _fixed_spread():
            yield figure
    finally:
        if not in_notebook():
            pyplot.close(figure)
        if before is not None:
            pyplot.figure(before.number)
    figure.set_size_inches(width, height)
    figure.set_layout_engine("constrained")


@contextmanager
def _fixed_spread() -> Iterator[None]:
    before = np.random.get_state()  # noqa: NPY002
    np.random.seed(0)  # noqa: NPY002
    try:
        yield
    finally:
        np.random.set_state(before)  # noqa: NPY002


def _picture_class() -> type[Figure]:
    return _picture_below(optional("matplotlib.figure", extra="explain").Figure)


@cache
def _picture_below(figure: type[Figure]) -> type[Figure]:
    """Figures that show themselves at the end of a cell, and once only if pyplot knows them."""
    return type("Picture", (figure,), {"_ipython_display_": _display, "__module__": __name__})


def _display(figure: Figure) -> None:
    shown = import_module("IPython.display")  # it is there: nothing else calls this
    picture = BytesIO()
    figure.savefig(picture, format="png", dpi=_NOTEBOOK_DPI)
    shown.display(shown.Image(data=picture.getvalue()))
    if pyplot := sys.modules.get("matplotlib.pyplot"):
        pyplot.close(figure)
