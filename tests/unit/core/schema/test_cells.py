"""How single cells are read."""

from __future__ import annotations

import numpy as np
import pytest

from voile.core.schema.cells import read_numbers, read_places


@pytest.mark.parametrize("word", ["nan", "NA", "n/a", "null", " None ", "#N/A"])
def test_words_for_nothing_are_missing_unless_they_are_listed(word: str) -> None:
    column = np.array([word], dtype=object)
    assert read_numbers(column).missing.tolist() == [True]
    assert read_places(column, {"yes": 0}).missing.tolist() == [True]
    listed = read_places(column, {"yes": 0, word.strip(): 1})
    assert listed.values.tolist() == [1.0]
