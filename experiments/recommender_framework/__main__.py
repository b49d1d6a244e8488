"""The recommender framework, with the item side learned once under user-level privacy.

    python -m experiments.recommender_framework [--quick] [--runs N]

Tables 6 to 8 in layout, and the attacks. Every run has a fresh split (80/20 for each user, every
rating positive), delta = 1e-6, unit user, zero-out; the budget by the frozen rule; noise of the
moments and of ratings from the exact sampler. Runs are kept in `recommender_framework.runs/` while
it works: stopped and started again it goes on. `--quick` is MovieLens 100K with three runs and
fewer coins, and writes nothing into `results/`. What takes long and varies little is not in every
run: networks in three, ALS in one. Yelp has 14,284 businesses: three runs, and no EASE.

Full ranking unless a line says otherwise: the protocol is part of every name.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.harness import ROOT, Figure, write
from scipy.special import ndtr

from experiments.lib.datasets.catalogue import SOURCES
from experiments.lib.recommenders.twins import exact_autoencoder
from experiments.recommender_framework import attacks, tables
from experiments.recommender_framework.setting import DATA, DELTA, DataSet, OneRun
from voile.core.guarantee import Relation
from voile.privacy.mechanisms import WeakPrivacyWarning
from voile.recommenders import Interactions, MomentsBudget, recommender_from

KEPT = ROOT / "recommender_framework.runs"


def kept(path: Path, make: Callable[[], Any]) -> Any:
    """What was made before, or is made now; whole or not at all."""
    if not path.exists():
        start = time.time()
        path.with_suffix(".part").write_text(json.dumps(make()))
        path.with_suffix(".part").replace(path)
        print(f"{path.stem}: {time.time() - start:.0f} s", flush=True)
    return json.loads(path.read_text())


def kept_run(data: DataSet, everything: Interactions, seed: int, folder: Path) -> dict[str, float]:
    """One run, or what is kept of it."""
    path = folder / f"{data.name.replace(' ', '_').lower()}-{seed}.json"
    run = OneRun(data, everything, seed)
    found: dict[str, float] = kept(
        path, lambda: run.figures(networks=not data.large and seed < 3, twins=seed == 0)
    )
    return found


def kept_attack(
    data: DataSet, everything: Interactions, folder: Path, *, worlds: int, targets: int
) -> list[Figure]:
    path = folder / f"{data.name.replace(' ', '_').lower()}-attack.json"
    found = kept(
        path, lambda: [asdict(each) for each in attacked(everything, data.name, worlds, targets)]
    )
    return [Figure(**each) for each in found]


def attacked(everything: Interactions, name: str, worlds: int, targets: int) -> list[Figure]:
    """Membership and inversion at ε = 1, beside the model without privacy."""
    draw = np.random.default_rng(2026)
    budget = MomentsBudget.exact(
        users=len(everything),
        items=len(everything.catalogue),
        relation=Relation.BLANK_ONE,
        epsilon=1.0,
        delta=DELTA,
    )
    right, plain, ours, open_ones = [], [], [], []
    for number in range(worlds):
        world = attacks.coin_world(everything, targets, draw)
        right.append(attacks.membership_of_moments(world, budget, draw).right)
        moments, _ = OneRun(DATA[0], everything, number).moments(world.present, 1.0)
        ours.append(attacks.inversion(recommender_from(moments), world, draw=draw))
        if number < 1:  # without noise, one draw of the coins tells enough
            plain.append(attacks.membership_of_model(world).right)
            model = exact_autoencoder(world.present)
            open_ones.append(attacks.inversion(model, world, draw=draw))
    coins = worlds * targets
    alone = attacks.membership_one_by_one(everything, budget, max(coins, 4000), draw)
    ceiling = float(ndtr(budget.mu / 2))
    gain, open_gain = (float(np.mean([a - b for a, b in each])) for each in (ours, open_ones))
    at, share = f"{name}, attack at ε = 1: ", "share of coins right"
    return [
        Figure(
            at + f"membership from both releases, {coins} coins",
            share,
            float(np.mean(right)),
            ceiling,
            float(np.mean(right)) / ceiling,
            "at most 0.53",
            float(np.mean(right)) <= 0.53,
        ),
        Figure(
            at + f"membership, one target a run, everybody else known, {alone.coins} coins",
            share,
            alone.right,
            ceiling,
            alone.right / ceiling,
            f"at most {ceiling:.3f} beyond an error of {alone.error:.3f}",
            alone.right <= ceiling + alone.error,
        ),
        Figure(
            at + "the same attack on EASE without privacy",
            share,
            float(np.mean(plain)),
            None,
            None,
            "at least 0.70",
            float(np.mean(plain)) >= 0.70,
        ),
        Figure(
            at + "inversion, advantage over a model without the target",
            "recall@10",
            gain,
            open_gain,
            None,
            "at most 0.05",
            gain <= 0.05,
        ),
    ]


def main() -> int:
    warnings.simplefilter("ignore", WeakPrivacyWarning)
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--runs", type=int, default=10)
    chosen = parser.parse_args()
    runs: dict[str, list[dict[str, float]]] = {}
    characteristics: list[dict[str, Any]] = []
    figures: list[Figure] = []
    folder = KEPT / "quick" if chosen.quick else KEPT
    folder.mkdir(parents=True, exist_ok=True)
    for data in DATA[:1] if chosen.quick else DATA:
        everything = data.load()
        characteristics.append(tables.characteristics(data, everything))
        count = min(chosen.runs, 3) if chosen.quick or data.large else chosen.runs
        runs[data.name] = [kept_run(data, everything, seed, folder) for seed in range(count)]
        if data is DATA[0] or data is DATA[1]:
            worlds, targets = (2, 300) if chosen.quick else (10, min(1000, len(everything) // 2))
            figures += kept_attack(data, everything, folder, worlds=worlds, targets=targets)
    figures = [*tables.figures(runs), *figures]
    if chosen.quick:
        for figure in figures:
            print(f"{figure.what}: {figure.ours:.4f} {figure.unit} {figure.target or ''}")
        return 0
    used = ("movielens_100k", "movielens_1m", "amazon_hin", "yelp_hin")
    write(
        "recommender_framework",
        "published",
        figures,
        seed=list(range(chosen.runs)),
        command="python -m experiments.recommender_framework",
        data_checksum=" ".join(SOURCES[name].checksum[:16] for name in used),
        table_6=characteristics,
        table_7={
            "epsilon": [0.5, 1.0, 2.0, 5.0],
            "noise": "Gaussian, exact sampler on the moments",
            "models": ["moments (EASE)", "factors", "autoencoder", "collaborative filter", "ALS"],
            "runs": chosen.runs,
        },
        table_8=tables.comparisons(runs),
        not_reproducible=tables.NOT_REPRODUCIBLE,
        slips_of_the_paper=tables.SLIPS,
    )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
