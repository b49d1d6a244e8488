"""The demo: its guarantee is true, and what it saved is what it shows."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib import image
from numpy.typing import NDArray

from voile.core import randomness
from voile.core.explanation import Explanation
from voile.core.guarantee import Adversary, ProtectedUnit, Relation
from voile.core.schema import Schema
from voile.workflows import demo

SCHEMA = Schema.loads(demo.SCHEMA)
BOUNDS = np.array([[18, 95], [80, 220], [70, 100], [0.2, 8], [0, 12]], float)
Patients = dict[str, NDArray[np.float64]]


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> demo.Demo:
    return demo.run(tmp_path_factory.mktemp("demo") / "not" / "there" / "yet")


def exact_release(
    patients: Patients, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> NDArray[np.float64]:
    """What the demo adds its noise to, for these patients."""
    seen: list[NDArray[np.float64]] = []

    def no_noise(values: NDArray[np.float64], scale: float) -> NDArray[np.float64]:
        assert scale > 0
        seen.append(np.array(values))
        return values

    with monkeypatch.context() as patch:
        patch.setattr(randomness, "laplace", no_noise)
        patch.setattr(demo, "_patients", lambda: patients)
        patch.setattr("voile.plots.bar", lambda _: _NoPicture())
        demo.run(folder)
    (exact,) = seen
    return exact


class _NoPicture:
    def savefig(self, *_: object, **__: object) -> None:
        pass


def with_first(patients: Patients, row: NDArray[np.float64]) -> Patients:
    changed = {name: column.copy() for name, column in patients.items()}
    for column, value in zip(changed.values(), row, strict=True):
        column[0] = value
    return changed


def extreme_rows() -> Iterator[NDArray[np.float64]]:
    yield from map(np.array, itertools.product(*BOUNDS))
    yield from map(np.array, itertools.product([-1e300, 1e300], repeat=5))  # clamped
    draw = np.random.default_rng(5)
    for _ in range(50):
        yield draw.uniform(BOUNDS[:, 0], BOUNDS[:, 1])
    for odd in (np.nan, np.inf, -np.inf):
        yield np.full(5, odd)


def test_the_noise_covers_every_replacement_by_a_blank_record(
    result: demo.Demo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Looks for a record whose blanking moves the release further than the noise allows."""
    patients = demo._patients()
    blank = exact_release(with_first(patients, BOUNDS.mean(axis=1)), tmp_path, monkeypatch)
    moved = [
        float(np.abs(exact_release(with_first(patients, row), tmp_path, monkeypatch) - blank).sum())
        for row in extreme_rows()
    ]
    (promise,) = result.explanation.guarantees
    sensitivity = max(moved)
    assert sensitivity <= result.noise_scale * promise.epsilon
    # The bound is reached, so that less noise would be too little.
    assert sensitivity >= 0.999999 * result.noise_scale * promise.epsilon
    # And the sampler itself agrees, its rounding to a grid included.
    sampler = randomness._sampler("laplace", 5, result.noise_scale)
    assert sampler.map(sensitivity) <= promise.epsilon


def test_a_blank_record_contributes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that replacing a record by a blank one takes its contribution away and adds none."""
    middle = {
        name: np.full(demo.PATIENTS, value)
        for name, value in zip(SCHEMA.feature_names, BOUNDS.mean(axis=1), strict=True)
    }
    assert np.abs(exact_release(middle, tmp_path, monkeypatch)).max() < 1e-15


def test_what_is_released_is_the_mean_contribution(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    patients = demo._patients()
    columns = np.column_stack(list(patients.values()))
    low, high = BOUNDS.T
    scaled = (np.clip(columns, low, high) - low) / (high - low)
    expected = ((scaled - 0.5) * demo.WEIGHTS).mean(axis=0)
    assert np.allclose(exact_release(patients, tmp_path, monkeypatch), expected, atol=1e-12)


def test_noise_of_the_stated_scale_is_added(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    exact = exact_release(demo._patients(), tmp_path, monkeypatch)
    asked: list[float] = []
    real = randomness.laplace

    def noted(values: Any, scale: float) -> NDArray[np.float64]:
        asked.append(scale)
        return real(values, scale)

    monkeypatch.setattr(randomness, "laplace", noted)
    first, second = demo.run(tmp_path / "a"), demo.run(tmp_path / "b")
    assert asked == [first.noise_scale, second.noise_scale]
    noise = first.explanation.values[0, :, 0] - exact
    assert (noise != 0).all()
    assert np.abs(noise).max() < 40 * first.noise_scale  # false alarm: 5 · exp(-40)
    assert not np.array_equal(first.explanation.values, second.explanation.values)


def test_the_standard_errors_are_those_of_the_noise(result: demo.Demo) -> None:
    errors = result.explanation.standard_errors
    assert errors is not None
    assert np.allclose(errors, math.sqrt(2) * result.noise_scale)


def test_the_guarantee_says_what_it_is_about(result: demo.Demo) -> None:
    (promise,) = result.explanation.guarantees
    assert (promise.epsilon, promise.delta) == (1.0, 0.0)
    assert (promise.unit, promise.relation) == (ProtectedUnit.ROW, Relation.BLANK_ONE)
    assert promise.against == (Adversary.PUBLIC,)
    assert promise.computational is False
    assert promise.dataset == SCHEMA.name
    assert f"number of patients: {demo.PATIENTS}" in promise.public_facts
    assert "running time is not observed" in promise.assumptions


def test_nothing_but_noisy_and_public_figures_is_released(
    result: demo.Demo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other patients, the same noise: all that differs is what the noise was added to."""
    monkeypatch.setattr(randomness, "laplace", lambda values, _: np.zeros_like(values))
    one = demo.run(tmp_path / "one")
    shuffled = {name: column[::-1] / 2 for name, column in demo._patients().items()}
    monkeypatch.setattr(demo, "_patients", lambda: shuffled)
    other = demo.run(tmp_path / "other")
    assert one.explanation == other.explanation
    assert one.saved.read_bytes() == other.saved.read_bytes()
    assert one.noise_scale == other.noise_scale == result.noise_scale
    assert result.explanation.data is None


def test_the_saved_file_loads_equal(result: demo.Demo) -> None:
    assert Explanation.load(result.saved) == result.explanation


def test_the_picture_is_one(result: demo.Demo) -> None:
    pixels = image.imread(result.picture)
    assert pixels.shape[0] > 300
    assert pixels.shape[1] > 600
    assert pixels.std() > 0.05


def test_the_weights_decide_the_order(result: demo.Demo) -> None:
    """The demo shows something worth looking at: effects far above the noise."""
    values = np.abs(result.explanation.values[0, :, 0])
    assert result.explanation.feature_names[int(values.argmax())] == "oxygen_saturation"
    assert values.max() > 100 * result.noise_scale


def test_running_it_again_replaces_the_files(tmp_path: Path) -> None:
    first = demo.run(tmp_path)
    second = demo.run(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"explanation.voile", "explanation.png"}
    assert Explanation.load(first.saved) == second.explanation
