"""Gradient inversion finds pictures where there is no noise, and none where there is."""

from __future__ import annotations

import math
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from experiments.lib.attacks.gradient_inversion import (
    GradientView,
    InversionSearch,
    invert_gradients,
    peak_signal_to_noise,
)

from voile.core.errors import InvalidInput

torch = pytest.importorskip("torch")
SHAPE = (1, 12, 12)
SEARCH = InversionSearch(steps=200)


def network() -> Any:
    with torch.random.fork_rng():
        torch.manual_seed(3)
        layers = torch.nn
        return layers.Sequential(
            layers.Conv2d(1, 8, 3, stride=2), layers.Tanh(), layers.Flatten(), layers.Linear(200, 4)
        )


def pictures() -> Any:
    """Smooth spots, each elsewhere."""
    down, right = np.mgrid[:12, :12]
    places = ((3, 3), (8, 4), (5, 8), (8, 8))
    spots = [np.exp(-((down - a) ** 2 + (right - b) ** 2) / 8) for a, b in places]
    return np.array(spots, dtype=np.float32)[:, np.newaxis], np.arange(4)


def found_from(noise: float) -> Any:
    given, labels = pictures()
    view = GradientView(network())
    gradients = view.of(given, labels)
    draw = np.random.default_rng(5)
    # Noise as DP-SGD adds it to one clipped record: relative to the length of its gradient.
    lengths = np.linalg.norm(gradients, axis=1, keepdims=True)
    gradients += noise * lengths * draw.standard_normal(gradients.shape, dtype=np.float32)
    found = invert_gradients(network(), gradients, labels, SHAPE, search=SEARCH, draw=draw)
    return peak_signal_to_noise(given, found)


def test_pictures_are_found_without_noise_and_not_with_it() -> None:
    plain, noisy = found_from(0.0), found_from(1.0)
    assert plain.min() > 18, plain
    assert noisy.max() < 12, noisy


def test_a_gradient_is_that_of_the_loss() -> None:
    given, labels = pictures()
    made = network()
    said = made(torch.from_numpy(given[:1]))
    loss = torch.nn.functional.cross_entropy(said, torch.from_numpy(labels[:1]))
    expected = torch.cat([g.flatten() for g in torch.autograd.grad(loss, list(made.parameters()))])
    found = GradientView(made).of(given, labels)
    np.testing.assert_allclose(found[0], expected.numpy(), rtol=1e-4, atol=1e-6)


def test_torch_is_loaded_when_it_is_needed_and_not_before() -> None:
    modules = "experiments.lib.attacks.gradient_inversion, experiments.lib.attacks.generative"
    script = f"import sys, {modules}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False, timeout=120).returncode == 0


def test_the_peak_signal_to_noise_ratio_is_in_decibels() -> None:
    zeros = np.zeros((2, *SHAPE), dtype=np.float32)
    off = zeros.copy()
    off[0] = 0.1
    found = peak_signal_to_noise(zeros, off)
    assert found[0] == pytest.approx(20, abs=1e-5)
    assert math.isinf(found[1])


def test_what_is_not_one_gradient_for_each_label_is_refused() -> None:
    with pytest.raises(InvalidInput, match="one flat gradient for each of 2 labels"):
        invert_gradients(
            network(),
            np.zeros((3, 5), dtype=np.float32),
            np.arange(2),
            SHAPE,
            search=SEARCH,
            draw=np.random.default_rng(0),
        )
    with pytest.raises(InvalidInput, match="no parameters"):
        GradientView(torch.nn.Flatten())
