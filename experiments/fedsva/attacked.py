"""Attacks on what was trained: pictures from gradients, and from the global model."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from benchmarks.harness import Figure, write
from numpy.typing import NDArray

from experiments.fedsva import networks
from experiments.fedsva.frozen import PUBLISHED_NORM
from experiments.fedsva.networks import NORM, Pictures, published_sigma
from experiments.fedsva.table import Runs, checksums, mean
from experiments.fedsva.targets import convolution_run
from experiments.lib.attacks.generative import GenerativeSearch, frechet_distance, generate_classes
from experiments.lib.attacks.gradient_inversion import (
    GradientView,
    InversionSearch,
    invert_gradients,
    peak_signal_to_noise,
)

PLAIN, BEGUN, STOPPED, NOISY, OURS = (
    "FedAvg",
    "FedAvg after one round",
    "FedAvg, stopped early at the accuracy of FedSVA",
    "FedSVA at ε 0.3 a round, as published",
    "ours at ε 2 in total",
)
EACH: Final = 100
"""Pictures of a class, made and real."""
INVERTED: Final = 50


def write_attacks(runs: Runs) -> None:
    pictures = networks.mnist()
    figures = [*inversions(runs, pictures), *generators(runs, pictures)]
    write(
        "fedsva_attacks",
        "attack, on MNIST by writer",
        figures,
        seed=runs.seeds[0],
        command="python -m experiments.fedsva attacks",
        data_checksum=checksums(),
        setting=f"inversion: the gradient of one picture at a time, {INVERTED} pictures, 200 "
        "steps; generator: a client with its own pictures and the global model, 300 steps; one run",
    )


# --- gradients ------------------------------------------------------------------------------------


def noises(rows: int, plan: networks.ConvolutionPlan) -> dict[str, float | None]:
    """Noise on the gradient of one record: on an update divided by the learning rate, 1 here."""
    return {
        "no noise": None,
        "FedSVA at ε 0.5 a round, as published": published_sigma(0.5, rows, PUBLISHED_NORM),
        "FedSVA at ε 0.2 a round, as published": published_sigma(0.2, rows, PUBLISHED_NORM),
        OURS: plan.norm * networks.noise_for(2.0, plan),
    }


def inverted(runs: Runs, pictures: Pictures, name: str, sigma: float | None) -> dict[str, Any]:
    """Peak signal-to-noise ratios, and the first eight pictures."""
    seed = runs.seeds[0]

    def make() -> dict[str, Any]:
        given, labels = pictures.test_x[:INVERTED].numpy(), pictures.test_y[:INVERTED].numpy()
        model, draw = networks.network(28, seed), np.random.default_rng(seed)
        gradients = GradientView(model).of(given, labels)
        if sigma is not None:
            lengths = np.linalg.norm(gradients, axis=1, keepdims=True)
            norm = networks.CONVOLUTIONS.norm if name == OURS else PUBLISHED_NORM
            gradients *= np.minimum(1, norm / lengths)
            gradients += sigma * draw.standard_normal(gradients.shape, dtype=np.float32)
        search = InversionSearch(steps=200)
        shape = (1, 28, 28)
        found = invert_gradients(model, gradients, labels, shape, search=search, draw=draw)
        ratios = peak_signal_to_noise(given, found)
        return {"ratios": ratios.tolist(), "shown": found[:8, 0].round(3).tolist()}

    facts = [name, sigma, seed, INVERTED]
    found: dict[str, Any] = runs.kept.run("inversion", facts, make)
    return found


def inversions(runs: Runs, pictures: Pictures) -> list[Figure]:
    rows, found = pictures.x.shape[1], []
    mean_picture = pictures.x[0].mean(dim=0, keepdim=True).numpy()
    given = pictures.test_x[:INVERTED].numpy()
    blind = mean(peak_signal_to_noise(given, np.repeat(mean_picture, INVERTED, axis=0)).tolist())
    for name, sigma in noises(rows, networks.CONVOLUTIONS).items():
        ratio = mean(inverted(runs, pictures, name, sigma)["ratios"])
        what = f"gradient inversion, {INVERTED} pictures, {name}; peer: the mean picture"
        wanted = {"no noise": "at least 20", OURS: "at most 10"}.get(name)
        met = {"no noise": ratio >= 20, OURS: ratio <= 10}.get(name)
        found.append(Figure(what, "dB", ratio, blind, ratio / blind, wanted, met))
    return found


def draw_inversions(runs: Runs, path: Path) -> Path:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    pictures = networks.mnist()
    lines: list[tuple[str, Any]] = [("pictures", pictures.test_x[:8, 0].numpy())]
    for name, sigma in noises(pictures.x.shape[1], networks.CONVOLUTIONS).items():
        made = inverted(runs, pictures, name, sigma)
        label = f"{name.replace(', as published', '')}\n{mean(made['ratios']):.1f} dB"
        lines.append((label, np.array(made["shown"])))
    figure, panels = pyplot.subplots(len(lines), 8, figsize=(10, 1.1 * len(lines)))
    for (label, shown), row in zip(lines, panels, strict=True):
        for panel, picture in zip(row, shown, strict=True):
            panel.imshow(picture, cmap="gray", vmin=0, vmax=1)
            panel.set(xticks=[], yticks=[])
        row[0].set_ylabel(label, rotation=0, ha="right", va="center", fontsize=8)
    figure.subplots_adjust(left=0.24, right=0.99, top=0.99, bottom=0.01, hspace=0.06, wspace=0.02)
    figure.savefig(path, dpi=110)
    pyplot.close(figure)
    return path


# --- generators -----------------------------------------------------------------------------------


def model_of(runs: Runs, pictures: Pictures, name: str) -> tuple[Any, float]:
    """The model under attack, and its accuracy."""
    if name == OURS:
        found = convolution_run(runs)
    else:
        sigma = published_sigma(0.3, pictures.x.shape[1], NORM) if name == NOISY else 0.0
        until = model_of(runs, pictures, NOISY)[1] if name == STOPPED else None
        rounds = 1 if name == BEGUN else 20

        def make() -> dict[str, Any]:
            model, accuracy = networks.average_rounds(
                pictures, sigma=sigma, rounds=rounds, seed=runs.seeds[0], until=until
            )
            return {"accuracy": accuracy, "values": networks.flat(model).tolist()}

        found = runs.kept.run("averaged", [name, sigma, NORM, runs.seeds[0]], make)
    return networks.with_values(found["values"]), found["accuracy"]


def generated(runs: Runs, pictures: Pictures, name: str) -> dict[str, float]:
    """Mean Fréchet distance over classes to pictures of people whom nobody trained on."""

    def make() -> dict[str, float]:
        model, accuracy = model_of(runs, pictures, name)
        made = generate_classes(
            model,
            pictures.x[0].numpy(),
            classes=10,
            each=EACH,
            search=GenerativeSearch(steps=300),
            draw=np.random.default_rng(runs.seeds[0]),
        )
        features = LocalFeatures(pictures)
        real = [pictures.test_x[pictures.test_y == c][:EACH].numpy() for c in range(10)]
        parts = zip(np.split(made, 10), real, strict=True)
        return {
            "distance": mean([frechet_distance(features(a), features(b)) for a, b in parts]),
            "accuracy": accuracy,
        }

    found: dict[str, float] = runs.kept.run("generator", [name, NORM, runs.seeds[0]], make)
    return found


class LocalFeatures:
    """Features of a network that was trained here, on one client's pictures."""

    def __init__(self, pictures: Pictures) -> None:
        layers = torch.nn
        with torch.random.fork_rng():
            torch.manual_seed(0)
            self._body = layers.Sequential(
                layers.Conv2d(1, 8, 5, stride=2),
                layers.ReLU(),
                layers.Conv2d(8, 8, 5, stride=2),
                layers.ReLU(),
                layers.Flatten(),
                layers.Linear(128, 24),
                layers.Tanh(),
            )
            model = layers.Sequential(self._body, layers.Linear(24, 10))
        move = torch.optim.Adam(model.parameters(), lr=3e-3)
        draw = np.random.default_rng(0)
        x, y = pictures.x[:5].flatten(0, 1), pictures.y[:5].flatten()
        for _ in range(300):
            places = torch.from_numpy(draw.integers(0, len(x), 64))
            move.zero_grad()
            loss: Any = layers.functional.cross_entropy(model(x[places]), y[places])
            loss.backward()
            move.step()

    def __call__(self, pictures: NDArray[np.float32]) -> NDArray[np.float64]:
        with torch.no_grad():
            found: NDArray[np.float64] = self._body(torch.from_numpy(pictures)).double().numpy()
        return found


def generators(runs: Runs, pictures: Pictures) -> list[Figure]:
    plain, found = generated(runs, pictures, PLAIN), []
    for name in (BEGUN, STOPPED, NOISY, OURS):
        made = generated(runs, pictures, name)
        what = f"generator, {name} (accuracy {made['accuracy']:.3f}); peer: FedAvg"
        ratio = made["distance"] / plain["distance"]
        found.append(Figure(what, "Fréchet", made["distance"], plain["distance"], ratio))
    return found
