"""Artefacts, what is told about users, networks of histories and figures of parties, assessed:
correct code is kept, and every planted fault is refuted.

Exact noise is slow: nothing draws more than 10⁵ vectors, and what is refuted a few thousand.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.contract.releases import ABOUT_USERS, ARTEFACTS, ITEM_SIDE, SHOP
from tests.statistical.assessing import KEPT_BELOW, runs_until_refuted
from tests.support.history_trials import history_trial
from tests.unit.pipelines.trusted_parties import planned
from voile.app.assess import subjects
from voile.assess.assessment import AuditTrial
from voile.assess.figure_trials import count_trial, invented_rate, own_rows_trial
from voile.assess.members_count import PrivateMembersCount
from voile.assess.release_trials import release_trial
from voile.core.guarantee import Protected, ProtectedUnit, Relation
from voile.pipelines.shapley_guided_noise import ChargedRate
from voile.pipelines.trusted_averaging import OverOwnRows
from voile.pipelines.trusted_averaging.tasks import GlobalModel, LocalTraining
from voile.privacy.events import PureDp
from voile.privacy.mechanisms import DiscreteGaussian, GaussianMechanism, SubsetSelection
from voile.recommenders import networks, third_party
from voile.release import feature_clusters, synthetic
from voile.training.private import PrivateSteps, loop
from voile.training.private.loop import PerceptronSum

pytestmark = pytest.mark.filterwarnings("ignore::voile.privacy.mechanisms.WeakPrivacyWarning")
MOST = 10_000
RUNS = 750
"""Of correct code; nothing is staked on the first 250, from which thresholds are learned."""
RANDOMISE, ADD_NOISE = GaussianMechanism.randomise, loop.Noise.add_to
STEPS = PrivateSteps(
    clipping_norm=0.3, noise_multiplier=1.0, sampling_rate=0.3, steps=6, rows=len(SHOP)
)
LOCAL = replace(planned(4.0, rounds=1).local, own_rows=OverOwnRows(4.0, 6.0))


def of(cases: dict[str, Any], name: str, **changes: Any) -> Callable[[], AuditTrial]:
    def build() -> AuditTrial:
        release: Any = cases[name].build()
        return release_trial(name, replace(release, **changes))

    return build


def rate(unit: ProtectedUnit, relation: Relation) -> Callable[[], AuditTrial]:
    columns = ("private",) if unit is ProtectedUnit.COLUMNS else ()
    protected = Protected(unit, relation, "invented rows", columns)
    charged = replace(invented_rate(protected, noise_multiplier=4.0, delta=1e-5), blocks=3)
    return lambda: release_trial("rate", charged)


def own_rows(relation: Relation) -> Callable[[], AuditTrial]:
    task = replace(LOCAL, network=replace(LOCAL.network, relation=relation))
    charged = task.cost(1)
    assert charged is not None
    return lambda: own_rows_trial("figures", task, charged, delta=1e-5)


HISTOGRAMS = of(ARTEFACTS, "histograms, blank one", size=50)
CLUSTERS = of(ARTEFACTS, "clusters, replace one")
TOP_LABELS = of(ABOUT_USERS, "top labels of a user")
PROFILE = of(ABOUT_USERS, "noisy profile of a user")
IMPORTANCE = of(ABOUT_USERS, "importance of labels")


def histories() -> AuditTrial:
    release: Any = ITEM_SIDE["network of histories"].build()
    return history_trial("network of histories", replace(release, privacy=STEPS))


RATE = rate(ProtectedUnit.ROW, Relation.BLANK_ONE)
OWN_ROWS = own_rows(Relation.BLANK_ONE)
KEPT: dict[str, Callable[[], AuditTrial]] = {
    "histograms": HISTOGRAMS,
    "histograms, add or remove one": of(ARTEFACTS, "histograms, add or remove one", size=50),
    "clusters": CLUSTERS,
    "top labels": TOP_LABELS,
    "noisy profile": PROFILE,
    "importance of labels": IMPORTANCE,
    "rate, blank one": RATE,
    "rate, replace one": rate(ProtectedUnit.ROW, Relation.REPLACE_ONE),
    "rate of columns": rate(ProtectedUnit.COLUMNS, Relation.BLANK_ONE),
    "figures, blank one": OWN_ROWS,
    "figures, replace one": own_rows(Relation.REPLACE_ONE),
}


@pytest.mark.parametrize("name", KEPT)
def test_correct_code_is_kept(name: str) -> None:
    assert runs_until_refuted(KEPT[name](), RUNS, at=KEPT_BELOW) is None


def test_correct_networks_are_kept() -> None:
    assert runs_until_refuted(histories(), 100, at=KEPT_BELOW) is None


# --- faults ---------------------------------------------------------------------------------------


def half_noise(self: GaussianMechanism, values: Any, *others: Any) -> Any:
    """As if the sensitivity had been half of what it is."""
    exact = np.asarray(values, dtype=np.float64).reshape(self.shape)
    return exact + (RANDOMISE(self, values, *others) - exact) / 2


@pytest.mark.parametrize("build", [CLUSTERS, PROFILE, IMPORTANCE, RATE, OWN_ROWS])
def test_half_of_the_sensitivity_is_refuted(
    build: Callable[[], AuditTrial], monkeypatch: pytest.MonkeyPatch
) -> None:
    trial = build()
    monkeypatch.setattr(GaussianMechanism, "randomise", half_noise)
    assert runs_until_refuted(trial, MOST) is not None


def test_noise_of_one_histogram_for_all_of_them_is_refuted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    trial, exact = HISTOGRAMS(), synthetic.histograms_sensitivity
    monkeypatch.setattr(synthetic, "histograms_sensitivity", lambda _, relation: exact(1, relation))
    assert runs_until_refuted(trial, MOST) is not None


def test_rows_that_are_drawn_from_exact_counts_are_refuted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The published counts have their noise, the rows have none."""
    counted: list[Any] = []
    trial = HISTOGRAMS()
    noisy, drawn = DiscreteGaussian.randomise, synthetic._values

    def seen(self: DiscreteGaussian, values: Any) -> Any:
        counted[:] = np.split(np.asarray(values), np.cumsum([4, 2, 4])[:-1])
        return noisy(self, values)

    monkeypatch.setattr(DiscreteGaussian, "randomise", seen)
    monkeypatch.setattr(
        synthetic,
        "_values",
        lambda domain, _, size, draw: drawn(domain, counted.pop(0), size, draw),
    )
    assert runs_until_refuted(trial, MOST) is not None


def test_features_beyond_their_scale_are_refuted(monkeypatch: pytest.MonkeyPatch) -> None:
    trial, scaled = CLUSTERS(), feature_clusters._scaled
    monkeypatch.setattr(feature_clusters, "_scaled", lambda *given: 2 * scaled(*given))
    assert runs_until_refuted(trial, MOST) is not None


def test_names_that_are_true_too_often_are_refuted(monkeypatch: pytest.MonkeyPatch) -> None:
    said, coins = SubsetSelection.randomise, np.random.default_rng()

    def frank(self: SubsetSelection, truth: Any) -> frozenset[int]:
        return frozenset(truth) if coins.random() < 0.5 else said(self, truth)

    trial = TOP_LABELS()
    monkeypatch.setattr(SubsetSelection, "randomise", frank)
    assert runs_until_refuted(trial, MOST) is not None


@pytest.mark.parametrize("build", [PROFILE, IMPORTANCE])
def test_profiles_of_any_length_are_refuted(
    build: Callable[[], AuditTrial], monkeypatch: pytest.MonkeyPatch
) -> None:
    trial = build()
    monkeypatch.setattr(third_party, "_unit", lambda profile: profile)
    assert runs_until_refuted(trial, MOST) is not None


def test_half_of_the_noise_on_histories_is_refuted(monkeypatch: pytest.MonkeyPatch) -> None:
    trial = histories()
    monkeypatch.setattr(
        loop.Noise, "add_to", lambda self, total, noise: ADD_NOISE(self, total, noise / 2)
    )
    assert runs_until_refuted(trial, MOST) is not None


def test_a_norm_for_each_question_to_a_user_is_refuted(monkeypatch: pytest.MonkeyPatch) -> None:
    clip = PerceptronSum._clip

    def each_line(self: Any, lines: Any, users: int, norm: float) -> Any:  # noqa: ARG001
        return clip(self, lines, len(lines[0].inputs), norm)

    trial = histories()
    monkeypatch.setattr(PerceptronSum, "_clip", each_line)
    assert runs_until_refuted(trial, MOST) is not None


def test_users_without_history_who_count_are_refuted(monkeypatch: pytest.MonkeyPatch) -> None:
    """In their place stands somebody with the opposite history."""
    trial, rows = histories(), networks.head_rows

    def never_empty(histories: Any, head: Any) -> Any:
        found = rows(histories, head)
        half = len(head) // 2
        nobody = np.flatnonzero(~found.any(axis=1))
        found[nobody, half + nobody] = 1.0
        return found

    monkeypatch.setattr(networks, "head_rows", never_empty)
    assert runs_until_refuted(trial, MOST) is not None


def test_a_rate_with_the_noise_of_more_blocks_is_refuted(monkeypatch: pytest.MonkeyPatch) -> None:
    trial, exact = RATE(), ChargedRate.sensitivity
    monkeypatch.setattr(ChargedRate, "sensitivity", lambda self: exact(self).scaled(0.5))
    assert runs_until_refuted(trial, MOST) is not None


# --- charges that leave something out -------------------------------------------------------------


def test_figures_over_own_rows_that_are_not_charged_are_refuted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What the figures say they cost is right; what the account pays leaves them out."""
    monkeypatch.setattr(LocalTraining, "cost", lambda self, size: self.network.cost(size))
    training, figures = subjects._of_task("trust", GlobalModel(LOCAL), 1e-5)
    assert training.event == LOCAL.network.cost(1)
    assert runs_until_refuted(figures, MOST) is not None


def test_training_that_is_not_charged_is_refuted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LocalTraining, "cost", lambda self, _: self.own_rows.event)
    training, _ = subjects._of_task("trust", LOCAL, 1e-5)
    assert runs_until_refuted(training, 200) is not None


def test_a_count_of_members_that_is_charged_a_tenth_is_refuted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(PrivateMembersCount, "cost", lambda *_: PureDp(0.1))
    assert runs_until_refuted(count_trial(1.0, Relation.BLANK_ONE, delta=1e-6), MOST) is not None
