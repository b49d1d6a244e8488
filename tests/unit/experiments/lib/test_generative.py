"""A curious client's generator follows the model that it asks, and distances are Fréchet's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from experiments.lib.attacks.generative import GenerativeSearch, frechet_distance, generate_classes

from voile.core.errors import InvalidInput


def test_the_distance_of_normal_laws_is_known() -> None:
    draw = np.random.default_rng(1)
    first = draw.standard_normal((20_000, 2))
    second = np.array([3.0, 0.0]) + 2 * draw.standard_normal((20_000, 2))
    assert frechet_distance(first, first) == pytest.approx(0, abs=1e-9)
    # |mean|² + Σ (2 − 1)² over two axes
    assert frechet_distance(first, second) == pytest.approx(9 + 2, rel=0.05)
    with pytest.raises(InvalidInput, match="alike in width"):
        frechet_distance(first, first[:, :1])


def bright_or_dark() -> Any:
    """A model of two classes: dark pictures and bright ones."""
    torch = pytest.importorskip("torch")

    class Brightness(torch.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.scale = torch.nn.Parameter(torch.tensor(10.0))

        def forward(self, pictures: Any) -> Any:
            level = self.scale * (pictures.mean(dim=(1, 2, 3)) - 0.5)
            return torch.stack([-level, level], dim=1)

    return Brightness()


def test_the_generator_makes_what_the_model_says_and_leaves_it_alone() -> None:
    model, draw = bright_or_dark(), np.random.default_rng(2)
    own = draw.random((64, 1, 8, 8), dtype=np.float32)
    search = GenerativeSearch(steps=60, batch=32, latent=4, rate=1e-2)
    made = generate_classes(model, own, classes=2, each=10, search=search, draw=draw)
    assert made.shape == (20, 1, 8, 8)
    assert made[10:].mean() > made[:10].mean() + 0.1
    assert model.scale.item() == 10.0
    assert model.scale.requires_grad


def test_sides_that_cannot_be_halved_twice_are_refused() -> None:
    with pytest.raises(InvalidInput, match="4 divides"):
        generate_classes(
            bright_or_dark(),
            np.zeros((2, 1, 9, 8), dtype=np.float32),
            classes=2,
            each=1,
            search=GenerativeSearch(),
            draw=np.random.default_rng(0),
        )
