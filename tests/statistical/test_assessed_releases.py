"""Releases assessed: correct code is kept, and every planted fault is refuted.

Exact noise is slow, so nothing draws more than 2·10⁵ vectors, and most far fewer.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.contract.releases import CASES, background
from tests.statistical.assessing import KEPT_BELOW, runs_until_refuted
from tests.unit.recommenders import examples as shops
from voile.assess import members_count
from voile.assess.assessment import AuditTrial
from voile.assess.claims import UNCHARGED
from voile.assess.figure_trials import count_trial
from voile.assess.release_trials import release_trial
from voile.assess.statistics_trials import at_half_noise, invented_statistics
from voile.assess.user_trials import invented_moments
from voile.core.guarantee import Relation
from voile.models import Box, wrap
from voile.privacy.mechanisms import GaussianMechanism
from voile.release import games, records

pytestmark = pytest.mark.filterwarnings("ignore::voile.privacy.mechanisms.WeakPrivacyWarning")
MOST = 30_000
REHEARSED = [
    "private background, replace one",
    "private background, blank one, groups",
    "private background, many players",
    "importance, by an explainer",
    "importance, in parts",
    "importance, over itself",
    "clipped",
    "top features, signed",
    "top features, pure and unsigned",
    "top features of a row",
    "interactions over a private background",
    "summary level",
    "noisy values, Gaussian",
    "noisy values, Laplace, row by row",
]
RANDOMISE = GaussianMechanism.randomise
MOMENTS = ("popularity of items", "Gram matrix of items")


def tried(name: str) -> AuditTrial:
    release: Any = CASES[name].build()
    return release_trial(name, release)


def moments() -> dict[str, AuditTrial]:
    shop = shops.shop(1000)
    found = invented_moments(shops.budget(shop), delta=shops.DELTA)
    return {each.name: release_trial(each.name, each) for each in found}


def half_noise(self: GaussianMechanism, values: Any, *others: Any) -> Any:
    """As if the sensitivity had been half of what it is."""
    exact_values = np.asarray(values, dtype=np.float64)
    return exact_values + (RANDOMISE(self, values, *others) - exact_values) / 2


@pytest.mark.parametrize("name", REHEARSED)
def test_correct_releases_are_kept(name: str) -> None:
    assert runs_until_refuted(tried(name), 500, at=KEPT_BELOW) is None


@pytest.mark.parametrize("name", MOMENTS)
def test_correct_moments_are_kept(name: str) -> None:
    assert runs_until_refuted(moments()[name], 2000, at=KEPT_BELOW) is None


@pytest.mark.parametrize("relation", [Relation.BLANK_ONE, Relation.REPLACE_ONE])
@pytest.mark.parametrize("place", range(3))
def test_correct_statistics_are_kept(place: int, relation: Relation) -> None:
    release = invented_statistics(relation, 0.1, delta=1e-5)[place]
    assert runs_until_refuted(release_trial("statistics", release), 500, KEPT_BELOW) is None


@pytest.mark.parametrize("place", range(3))
def test_statistics_with_half_of_their_noise_are_refuted(place: int) -> None:
    charged = invented_statistics(Relation.BLANK_ONE, 0.1, delta=1e-5)[place]
    trial = release_trial("statistics", at_half_noise(charged), charged.cost(1))
    assert runs_until_refuted(trial, MOST) is not None


@pytest.mark.parametrize("place", range(3))
def test_statistics_that_are_not_charged_are_refuted(place: int) -> None:
    """Planted fault: one of the three, such as the calibration table, was left out of the bill."""
    release = invented_statistics(Relation.BLANK_ONE, 0.1, delta=1e-5)[place]
    trial = release_trial("statistics", release, UNCHARGED)
    assert runs_until_refuted(trial, MOST) is not None


@pytest.mark.parametrize("relation", [Relation.BLANK_ONE, Relation.REPLACE_ONE])
def test_a_correct_count_of_members_is_kept(relation: Relation) -> None:
    assert runs_until_refuted(count_trial(1.0, relation, delta=1e-6), 3000, KEPT_BELOW) is None


def test_a_count_of_members_with_half_its_noise_is_refuted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    trial = count_trial(0.5, Relation.BLANK_ONE, delta=1e-6)
    noise = members_count.count_noise
    monkeypatch.setattr(
        members_count, "count_noise", lambda epsilon, relation: noise(2 * epsilon, relation)
    )
    assert runs_until_refuted(trial, MOST) is not None


@pytest.mark.parametrize(
    "name", ["private background, blank one, groups", "private background, replace one", "clipped"]
)
def test_half_of_the_sensitivity_is_refuted(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    trial = tried(name)
    monkeypatch.setattr(GaussianMechanism, "randomise", half_noise)
    assert runs_until_refuted(trial, MOST) is not None


@pytest.mark.parametrize("name", MOMENTS)
def test_moments_at_half_their_sensitivity_are_refuted(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    trial = moments()[name]
    monkeypatch.setattr(GaussianMechanism, "randomise", half_noise)
    assert runs_until_refuted(trial, MOST) is not None


def at_two(relation: Relation) -> AuditTrial:
    """A background of a claim of (2, 1e-5), where faults of a factor two show soon."""
    release: Any = background(relation)
    return release_trial("background", replace(release, epsilon=2.0))


def test_a_null_record_that_counts_as_the_defaults_is_refuted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    trial, read = at_two(Relation.BLANK_ONE), records.Records.read_any

    def forgetful(given: Any, schema: Any) -> Any:
        found = read(given, schema)
        return replace(found, blank=np.zeros_like(found.blank))

    monkeypatch.setattr(records.Records, "read_any", forgetful)
    assert runs_until_refuted(trial, MOST) is not None


def test_a_model_that_mixes_rows_and_gets_them_together_is_refuted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    trial = at_two(Relation.BLANK_ONE)
    monkeypatch.setattr(games.BackgroundGames, "together", property(lambda _: True))
    assert runs_until_refuted(trial, MOST) is not None


def test_an_exact_base_value_is_refuted(monkeypatch: pytest.MonkeyPatch) -> None:
    def but_the_last(self: GaussianMechanism, values: Any, *others: Any) -> Any:
        noisy = RANDOMISE(self, values, *others)
        noisy[:, -1] = np.asarray(values)[:, -1]
        return noisy

    trial = at_two(Relation.REPLACE_ONE)
    monkeypatch.setattr(GaussianMechanism, "randomise", but_the_last)
    assert runs_until_refuted(trial, MOST) is not None


def test_missing_clipping_is_refuted(monkeypatch: pytest.MonkeyPatch) -> None:
    trial = tried("clipped")
    monkeypatch.setattr("voile.release.clipped.clipped", lambda vectors, _: vectors)
    assert runs_until_refuted(trial, MOST) is not None


def test_the_model_that_is_explained_is_never_asked() -> None:
    """What it was trained on may be protected: a verdict must not depend on it."""

    def counted(rows: Any) -> Any:
        asked.append(len(rows))
        return np.zeros(len(rows))

    asked: list[int] = []
    release: Any = background(Relation.BLANK_ONE, model=wrap(counted, outputs=Box(0, 1)))
    trial, before = release_trial("background", release), len(asked)
    runs_until_refuted(trial, 250)
    assert len(asked) == before
