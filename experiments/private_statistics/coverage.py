"""How often intervals hold, and whether two draws agree with each other and with the truth."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from benchmarks.harness import Figure

from experiments.private_statistics.noise_free import noise_free_model
from experiments.private_statistics.setting import (
    HEADLINE,
    Data,
    Study,
    account_rho,
    cosine,
    fitted,
)
from voile.release.statistics import LabelledRecords

EXPLAINED = 500


def coverage_table(studies: Sequence[Study], draws: int) -> dict[str, Any]:
    figures: list[Figure] = []
    by_feature: dict[str, Any] = {}
    for study in studies:
        found, by_feature[study.title] = covered(study, Data.load(study), draws)
        figures += found
    return {"peer": "at ε = 2", "figures": figures, "by_feature": by_feature}


def covered(study: Study, data: Data, draws: int) -> tuple[list[Figure], dict[str, Any]]:
    """Coverage of intervals and agreement of explanations, at the noise of an account."""
    train, test = data.split(0)
    records = LabelledRecords.read(data.rows[train], data.schema, data.labels[train])
    shown, rho = data.rows[test][:EXPLAINED], account_rho(HEADLINE)
    shares: list[float] = []
    by_feature: dict[str, list[float]] = {}
    to_plain, between, last = [], [], None
    for _ in range(draws):
        private = fitted(records, data.schema, rho)
        model, plain = private.model, noise_free_model(private, records)
        inside = np.abs(model.centred_scores - plain.centred_scores) <= 1.96 * model.standard_errors
        shares.append(float(inside.mean()))
        start = 0
        for feature in model.bins:
            by_feature.setdefault(feature.name, []).append(
                float(inside[start : start + feature.count].mean())
            )
            start += feature.count
        values = model.explain(shown).values[:, :, 0]
        to_plain.append(cosine(values, plain.explain(shown).values[:, :, 0]))
        if last is not None:
            between.append(cosine(values, last))
        last = values
    means = {name: float(np.mean(each)) for name, each in by_feature.items()}
    worst = min(means, key=lambda name: means[name])
    mean = float(np.mean(shares))
    at = f"{study.title}, ε = {HEADLINE:g}, {draws} draws: "
    figures = [
        Figure(
            at + "intervals that hold",
            "",
            mean,
            0.95,
            mean / 0.95,
            "0.93 to 0.97",
            0.93 <= mean <= 0.97,
        ),
        Figure(at + f"of the worst feature ({worst})", "", means[worst], 0.95, means[worst] / 0.95),
        Figure(
            at + "cosine of explanations to those without noise",
            "",
            float(np.mean(to_plain)),
            None,
            None,
        ),
        Figure(at + "cosine between two draws", "", float(np.mean(between)), None, None),
    ]
    for figure in figures:
        print(f"{figure.what}: {figure.ours:.3f}", flush=True)
    return figures, means
