"""Values of rows as people wrote them, cell by cell."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

MISSING: Final = "missing"


def is_missing(cell: Any) -> bool:
    """None, and what differs from itself: NaN, NaT, `pd.NA`."""
    if cell is None or type(cell).__name__ in ("NAType", "NaTType"):
        return True
    kinds = (float, np.floating, np.datetime64)
    return isinstance(cell, kinds) and bool(cell != cell)


def cell_text(cell: Any) -> str:
    """One value of a row, for people."""
    if is_missing(cell):
        return MISSING
    if isinstance(cell, bool | np.bool_ | str):
        return str(cell)
    if isinstance(cell, int | float | np.integer | np.floating):
        number = float(cell)
        return f"{number:,.0f}" if abs(number) >= 1e4 else f"{number:.4g}"
    return str(cell).removesuffix(" 00:00:00")
