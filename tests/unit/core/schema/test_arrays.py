"""What counts as a table of columns, decided once for whoever takes tables and arrays."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd
import pytest

from voile.core.schema import is_table

COLUMNS = {"age": [41.0, 17.0], "sex": ["f", "m"]}
FRAME = pd.DataFrame(COLUMNS)


@pytest.mark.parametrize("given", [COLUMNS, MappingProxyType(COLUMNS), FRAME, {}])
def test_data_by_column_name_are_a_table(given: Any) -> None:
    assert is_table(given)


@pytest.mark.parametrize(
    "given",
    [
        FRAME["age"],  # has keys and can be indexed, like a table
        FRAME.iloc[0],
        FRAME.to_numpy(),
        np.zeros(2, dtype=[("age", "f8")]),
        [[41.0, 0.0]],
        "age",
        None,
    ],
)
def test_whatever_else_holds_rows_is_not(given: Any) -> None:
    assert not is_table(given)
