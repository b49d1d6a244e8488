"""The experiment on private statistics: noise of parties adds up, schemas are read off."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks.harness import Figure
from experiments.private_statistics.__main__ import EPSILONS, table_lines
from experiments.private_statistics.setting import (
    STUDIES,
    _drawn,
    _feature,
    _texts,
    account_rho,
    cosine,
    study_rho,
)
from tests.unit.release.statistics.examples import budget, records, terms

from voile.core.schema import Categories, Numbers
from voile.release.statistics import PrivateFineTables


def test_noise_of_parties_adds_up() -> None:
    """Of about 300 numbers the deviation is off by 7 of its errors with a chance below 10^-6."""
    given = budget(50, parties=9)
    release = PrivateFineTables(records(50), given, **terms(given))
    exact = np.concatenate([block.ravel() for block in release.exact(records(50))])
    noise = np.concatenate([block.ravel() for block in _drawn(release, 9).blocks]) - exact
    error = 7 / np.sqrt(2 * len(noise))
    assert noise.std() == pytest.approx(3 * given.tables_noise.sigma, rel=error)


def test_the_study_spent_a_little_more_than_an_account_grants() -> None:
    assert np.sqrt(2 * study_rho(2.0)) == pytest.approx(0.502, abs=1e-3)
    assert np.sqrt(2 * account_rho(2.0)) == pytest.approx(0.465, abs=1e-3)


def test_schemas_are_read_off_public_data() -> None:
    assert _feature("age", np.array([3.0, np.nan, 9.0])).domain == Numbers(3, 9, whole=True)
    assert _feature("weight", np.array([3.5, 9.0])).domain == Numbers(3.5, 9.0)
    texts = _texts(np.array(["b", None, " a"], dtype=object))
    assert _feature("colour", texts).domain == Categories(("a", "b", "missing"))


def test_the_table_has_a_line_for_each_kind_of_noise() -> None:
    study = STUDIES[0]
    kinds = (
        "pooled, ε = {:g}: {}",
        "local, ε = {:g}: {}",
        "an account of ε = {:g} beside plain LR: {}",
    )
    figures = [
        Figure(f"{study.title}, {kind.format(epsilon, what)}", "", 0.25, 0.75, None)
        for kind in kinds
        for epsilon in EPSILONS
        for what in ("AUC", "log-loss")
    ]
    figures += [Figure(f"{study.title}, boosting: {what}", "", 0.5, None, None) for what in "ab"]
    title, account, pooled, local = table_lines(study, figures)
    assert title[1] == "without privacy: plain LR 0.750 / 0.750, boosting 0.500 / 0.500"
    assert account[2:] == ["0.250 / 0.250"] * 4
    assert pooled[2:] == local[2:] == ["0.250 / 0.250 (0.750 / 0.750)"] * 4


def test_cosine() -> None:
    one = np.array([[1.0, 0.0], [0.0, 0.0]])
    assert cosine(one, 2 * one) == 1.0
    assert cosine(one, one[:, ::-1]) == 0.0
