"""Faults that touch a part of what leaves: each is refuted, wherever it hides."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.contract.releases import ABOUT_USERS, CASES, ITEM_SIDE
from tests.statistical.assessing import runs_until_refuted, stage
from voile.assess.assessment import AuditTrial
from voile.assess.release_trials import release_trial
from voile.assess.training_canaries import stage_trial
from voile.federation.client import Client
from voile.privacy.mechanisms import GaussianMechanism
from voile.release import PrivateBackgroundShapley, PrivateGlobalImportance
from voile.training.private import loop

pytestmark = pytest.mark.filterwarnings("ignore::voile.privacy.mechanisms.WeakPrivacyWarning")
MOST = 30_000
RANDOMISE, PLAIN_NOISE = GaussianMechanism.randomise, loop.Noise.add_to
DRAW = PrivateGlobalImportance.draw


def tried(name: str) -> AuditTrial:
    release: Any = (CASES | ABOUT_USERS | ITEM_SIDE)[name].build()
    return release_trial(name, release)


def only_the_first(self: GaussianMechanism, values: Any, *others: Any) -> Any:
    """Of each row noise falls on the first value alone."""
    exact, noisy = np.asarray(values, dtype=np.float64), RANDOMISE(self, values, *others)
    if exact.ndim == 3:
        noisy[:, 1:] = exact[:, 1:]
    else:
        noisy.flat[1:] = exact.flat[1:]
    return noisy


@pytest.mark.parametrize(
    "name",
    [
        "clipped",
        "importance, by an explainer",
        "noisy profile of a user",
        "importance of labels",
    ],
)
def test_noise_on_the_first_value_alone_is_refuted(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    trial = tried(name)
    monkeypatch.setattr(GaussianMechanism, "randomise", only_the_first)
    assert runs_until_refuted(trial, MOST) is not None


def test_clipping_values_one_by_one_is_refuted(monkeypatch: pytest.MonkeyPatch) -> None:
    trial = tried("clipped")
    monkeypatch.setattr("voile.release.clipped.clipped", lambda v, bound: np.clip(v, -bound, bound))
    assert runs_until_refuted(trial, MOST) is not None


@pytest.mark.parametrize("shared", [True, False])
def test_another_part_without_noise_of_its_own_is_refuted(
    shared: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It gets that of the first part, or none."""
    trial = tried("importance, in parts")

    def careless(self: PrivateGlobalImportance, rows: Any) -> Any:
        found = DRAW(self, rows)
        values, exact = found.values.copy(), exact_means(self, rows)
        values[1:] = exact[1:] + (values[:1] - exact[:1] if shared else 0)
        return replace(found, values=values)

    monkeypatch.setattr(PrivateGlobalImportance, "draw", careless)
    assert runs_until_refuted(trial, MOST) is not None


def exact_means(release: PrivateGlobalImportance, rows: Any) -> Any:
    def nothing(self: GaussianMechanism, values: Any, *_: Any) -> Any:  # noqa: ARG001
        return np.asarray(values, dtype=np.float64)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(GaussianMechanism, "randomise", nothing)
        return DRAW(release, rows).values


def test_what_hides_in_half_widths_or_notes_is_refuted(monkeypatch: pytest.MonkeyPatch) -> None:
    draw = PrivateBackgroundShapley.draw

    def in_widths(self: PrivateBackgroundShapley, rows: Any) -> Any:
        found = draw(self, rows)
        told = np.isnan(np.asarray(self.background, dtype=np.float64)).any(axis=1).mean()
        assert found.half_widths is not None
        return replace(found, half_widths=found.half_widths * (1 + 1e-6 * told))

    def in_notes(self: PrivateBackgroundShapley, rows: Any) -> Any:
        found = draw(self, rows)
        told = np.isnan(np.asarray(self.background, dtype=np.float64)).any(axis=1).sum()
        return found.with_notes((*found.notes, f"{told} records could not be read"))

    for leaking in (in_widths, in_notes):
        trial = tried("private background, blank one, groups")
        monkeypatch.setattr(PrivateBackgroundShapley, "draw", leaking)
        assert runs_until_refuted(trial, MOST) is not None
        monkeypatch.setattr(PrivateBackgroundShapley, "draw", draw)


def test_training_without_noise_on_the_bias_is_refuted(monkeypatch: pytest.MonkeyPatch) -> None:
    def but_the_last(self: Any, total: Any, deviation: float) -> None:
        kept = total[-1].copy()
        PLAIN_NOISE(self, total, deviation)
        total[-1] = kept

    monkeypatch.setattr(loop.Noise, "add_to", but_the_last)
    trial = stage_trial("stage", stage(), delta=1e-5)
    assert runs_until_refuted(trial, 4000) is not None


def test_what_is_sent_besides_the_noisy_steps_is_refuted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The number of records that are there, in the network that leaves."""
    answer = Client.answer

    def with_more(self: Client, instruction: Any) -> Any:
        update = answer(self, instruction)
        told = np.float32(np.isfinite(self.records[0]).all(axis=1).mean())
        return replace(update, arrays={n: array + told for n, array in update.arrays.items()})

    monkeypatch.setattr(Client, "answer", with_more)
    trial = stage_trial("stage", stage(), delta=1e-5)
    assert runs_until_refuted(trial, 4000) is not None
