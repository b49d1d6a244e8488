"""Values of rows as people wrote them, cell by cell."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

MISSING: Final = "missing"


def is_missing(cell: Any) -> bool:
    """None, and what differs from itself: NaN, NaT, `pd.NA`."""
    if cell is None or type(cell).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(cell, float | np.floating | np.datetime64) and bool(cell != cell)


def cell_text(cell: Any) -> str:
    """One value of a row, for people."""
    if is_missing(cell):
        return MISSING
    if isinstance(cell, bool | np.bool_ | str):
        return str(cell)
    if isinstance(cell, int | float | np.integer | np.floating):
        return f"{cell:,.0f}" if abs(cell) >= 1e4 else f"{cell:.4g}"
    return str(cell).removesuffix(" 00:00:00")
