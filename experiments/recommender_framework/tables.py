"""Figures of all runs as Tables 6 to 9 of the paper, the published figure beside ours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from benchmarks.harness import Figure

from experiments.lib.evaluation.runs import compare_to, summarise
from experiments.recommender_framework.setting import DATA, PUBLISHED, DataSet
from voile.recommenders import Interactions

Runs = Mapping[str, Sequence[Mapping[str, float]]]
"""By data set, the figures of each run."""
FULL = "NDCG@10, full ranking"
NEGATIVES = "NDCG@10, 99 sampled negatives"
RATED = "NDCG@10, rated items only"
TARGETS = {
    ("MovieLens 1M", f"ε = 1, moments, {FULL}"): ("at least", 0.31),
    ("MovieLens 1M", f"ε = 2, moments, {FULL}"): ("at least", 0.345),
    ("MovieLens 1M", f"ε = 5, moments, {FULL}"): ("at least", 0.375),
    ("MovieLens 100K", f"ε = 1, moments, {FULL}"): ("at least", 0.265),
    ("MovieLens 100K", f"ε = 5, moments, {FULL}"): ("at least", 0.34),
    ("MovieLens 1M", f"ε = 1, moments, {NEGATIVES}"): ("at least", 0.39),
    ("MovieLens 1M", f"ε = 5, moments, {NEGATIVES}"): ("at least", 0.47),
    ("MovieLens 1M", f"ε = 1, ratings, {RATED}"): ("at least", 0.77),
    ("MovieLens 1M", "ε = 1, explanations, cosine"): ("at least", 0.88),
    ("MovieLens 1M", "ε = 1, explanations, PAAS"): ("at least", 0.80),
    ("MovieLens 100K", "ε = 1, explanations, cosine"): ("at least", 0.88),
    ("MovieLens 100K", "ε = 1, explanations, PAAS"): ("at least", 0.80),
    ("MovieLens 1M", "ε = 5, fitting, seconds"): ("at most", 5.0),
}
PEERS = {
    f"no privacy, EASE, {FULL}": "no privacy",
    f"ε = 1, DP-SGD autoencoder, {FULL}": "DP-SGD",
    f"ε = 1, local popularity, {FULL}": "LDP-MF",
    f"ε = 1, moments, {FULL}": "framework",
}
NOT_REPRODUCIBLE = (
    "Table 9 (three live services with 567K to 890K users, user satisfaction): not reproducible",
    "user study of 842 participants: not reproducible",
)
SLIPS = (
    "clipping to C is called a sensitivity of C; two clipped vectors are up to 2C apart",
    "the classic Gaussian sigma is used for epsilon of 1 and more, where it is no theorem",
    "integrated gradients lack the factor (x - x0)",
    "PAAS grows with epsilon by itself: less privacy scores better, and pure noise gets 0.609",
    "sparsity of MovieLens 25M is given as 99.16 %; from the given counts it is 99.84 %",
    "NDCG 0.72 to 0.85 is asked of explanation levels, above what the recommender itself reaches",
    "NDCG@10 of 0.831 without privacy is out of reach of full ranking; ranking rated items only "
    "gives such figures, and then a random order has 0.66",
)


def characteristics(data: DataSet, found: Interactions) -> dict[str, Any]:
    """A row of Table 6."""
    cells = len(found) * len(found.catalogue)
    return {
        "data set": data.name,
        "published": data.published or "-",
        "users": len(found),
        "items": len(found.catalogue),
        "interactions": len(found.item),
        "sparsity": 1 - len(found.item) / cells,
        "split": "80/20 for each user",
    }


def figures(runs: Runs) -> list[Figure]:
    """Means over runs, with the target or the published figure."""
    found = []
    most = max(map(len, runs.values()), default=0)
    for data in DATA:
        done = runs.get(data.name, ())
        for name in dict.fromkeys(name for run in done for name in run):
            if not _shown(data, name):
                continue
            values = [run[name] for run in done if name in run]
            mean = float(np.mean(values))
            published = PUBLISHED.get(data.name, {}).get(PEERS.get(name, ""))
            target = TARGETS.get((data.name, name))
            met = None
            if target is not None:
                met = mean >= target[1] if target[0] == "at least" else mean <= target[1]
            found.append(
                Figure(
                    f"{data.name}: {name}",
                    _spread(values, most),
                    mean,
                    published,
                    None if published is None else mean / published,
                    None if target is None else f"{target[0]} {target[1]:g}",
                    met,
                )
            )
        if done:
            found += _within(data, done)
    return found


def _spread(values: Sequence[float], most: int) -> str:
    """The standard deviation, and over how many runs where that is not all of them."""
    if len(values) == 1:
        return "(one run)"
    fewer = "" if len(values) == most else f" ({len(values)} runs)"
    return f"± {np.std(values, ddof=1):.3f}{fewer}"


def _shown(data: DataSet, name: str) -> bool:
    """All figures are in the kept runs; a table has to end."""
    if any(word in name for word in ("recall", "factors", "ε = 0.5", "ε = 2, drawing")):
        return False
    if name.endswith((NEGATIVES, RATED)):
        compared = ("no privacy, EASE", "random", "moments", "ratings")
        return data.name.startswith("MovieLens") and any(word in name for word in compared)
    return name not in ("ε = 2, fitting, seconds", f"ε = 2, local popularity, {FULL}")


def _within(data: DataSet, runs: Sequence[Mapping[str, float]]) -> list[Figure]:
    """Whether Kendall's correlation is within 0.05 of that of two models of half the data."""
    names = ("ε = 1, explanations, Kendall", "halves without privacy, explanations, Kendall")
    if not all(name in run for run in runs for name in names):
        return []
    ours, halves = (float(np.mean([run[name] for run in runs])) for name in names)
    what = f"{data.name}: Kendall at ε = 1 less that of two halves without privacy"
    target = "at least -0.05" if data.name.startswith("MovieLens") else None
    met = ours - halves >= -0.05 if target else None
    return [Figure(what, "", ours - halves, None, None, target, met)]


def comparisons(runs: Runs) -> list[dict[str, Any]]:
    """Table 8: our moments at ε = 1 against each other method, over the same runs."""
    found = []
    for data in DATA:
        done = runs.get(data.name, ())
        ours = f"ε = 1, moments, {FULL}"
        if len(done) < 2 or ours not in done[0]:
            continue
        names = [
            name
            for name in done[0]
            if name.endswith(FULL)
            and name != ours
            and name.startswith(("no privacy", "ε = 1,", "random"))
            and all(name in run for run in done)
        ]
        reference = [run[ours] for run in done]
        tests = compare_to(reference, {name: [run[name] for run in done] for name in names})
        for name, test in tests.items():
            summary = summarise([run[name] for run in done], generator=np.random.default_rng(1))
            found.append(
                {
                    "data set": data.name,
                    "method": name,
                    "mean": summary.mean,
                    "bootstrap interval": list(summary.bootstrap_interval),
                    "Wilcoxon p": test.p_value,
                    "Bonferroni p": test.corrected,
                    "Cohen's d to the moments": None if np.isinf(test.effect) else test.effect,
                }
            )
    return found
