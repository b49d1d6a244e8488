"""`make test` gives the same answer twice: property tests draw the same inputs each time."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

MAKEFILE = Path(__file__).parents[2] / "Makefile"


def drawn(profile: str) -> list[str]:
    found: list[str] = []

    @settings.get_profile(profile)
    @given(st.floats())
    def collect(number: float) -> None:
        found.append(repr(number))

    collect()
    return found


def test_the_suite_draws_the_same_inputs_each_time_and_exploring_others() -> None:
    assert drawn("suite") == drawn("suite")
    assert drawn("explore") != drawn("explore")


def test_that_profile_is_the_one_in_force(request: pytest.FixtureRequest) -> None:
    chosen = request.config.getoption("hypothesis_profile") or "suite"
    assert settings.get_current_profile_name() == chosen


def test_make_test_takes_it_and_make_explore_does_not() -> None:
    recipes = MAKEFILE.read_text().split("\n\n")
    (suite,) = (recipe for recipe in recipes if recipe.startswith("suite:"))
    (explore,) = (recipe for recipe in recipes if "\nexplore:" in recipe)
    assert "profile" not in suite
    assert "--hypothesis-profile explore" in explore
