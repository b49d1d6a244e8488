"""Private statistics on the five data sets of the study behind the frozen rule.

    VOILE_DATA=... python -m experiments.private_statistics [--splits N] [--draws N] [--only NAME]

For each set and split: the additive model from three private sums, at delta = 1e-5, unit row,
zero-out. "pooled" is the noise of one data set, "local" that of all parties, each with its own.
Noise is from the exact sampler. At the study's own noise (exact Gaussian composition) figures are
compared with the study's; at the noise that an adaptive account grants, with models without
privacy. Then, at that noise and epsilon = 2: how often intervals of ±1.96 errors hold the Shapley
values of the model without noise on the same bins, and how explanations of two draws agree with
each other and with that model. With `--only` nothing is written.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from benchmarks.harness import Figure, write

from experiments.lib.datasets.catalogue import SOURCES
from experiments.private_statistics.noise_free import noise_free_model
from experiments.private_statistics.setting import (
    STUDIES,
    Data,
    Study,
    account_rho,
    cosine,
    fitted,
    mean_pair,
    plain_scores,
    scored,
    study_rho,
)
from voile.privacy.mechanisms import WeakPrivacyWarning
from voile.release.statistics import LabelledRecords

EPSILONS = (0.5, 1.0, 2.0, 8.0)
HEADLINE = 2.0
CLOSE = {"pooled": 0.01, "local": 0.015}
"""How far from the study's figures is within noise of a few splits."""
AREA, LOSS = 0.015, 0.025
"""What may be lost to logistic regression without privacy."""
EXPLAINED = 500


def private_scores(data: Data, rho: float, parties: int, splits: int) -> tuple[float, float]:
    found = []
    for seed in range(splits):
        train, test = data.split(seed)
        records = LabelledRecords.read(data.rows[train], data.schema, data.labels[train])
        model = fitted(records, data.schema, rho, parties).model
        found.append(scored(data.labels[test], model.predict(data.rows[test])[:, 1]))
    return mean_pair(found)


def repeated(study: Study, data: Data, splits: int) -> list[Figure]:
    """The study's table at the study's noise."""
    figures = []
    for noise, parties in (("pooled", 1), ("local", study.parties)):
        for epsilon in EPSILONS:
            found = private_scores(data, study_rho(epsilon), parties, splits)
            figures += [
                Figure(
                    f"{study.title}, {noise}, ε = {epsilon:g}: {what}",
                    "",
                    ours,
                    peer,
                    ours / peer,
                    f"within {CLOSE[noise]:g} of the study, or better",
                    (peer - ours) * sign <= CLOSE[noise],
                )
                for what, ours, peer, sign in zip(
                    ("AUC", "log-loss"),
                    found,
                    study.published[noise][epsilon],
                    (1, -1),
                    strict=True,
                )
            ]
            print(f"{study.title}, {noise}, {epsilon:g}: {found[0]:.4f} {found[1]:.4f}", flush=True)
    return figures


def compared(study: Study, data: Data, splits: int) -> list[Figure]:
    """At the noise of an account, beside models without privacy."""
    plain = [plain_scores(data, seed) for seed in range(splits)]
    linear, boosted = (
        mean_pair([each[name] for each in plain]) for name in ("plain LR", "boosting")
    )
    figures = [
        Figure(
            f"{study.title}, boosting without privacy: {what}",
            "",
            boosted[place],
            linear[place],
            None,
        )
        for place, what in enumerate(("AUC", "log-loss"))
    ]
    for epsilon in EPSILONS:
        area, loss = private_scores(data, account_rho(epsilon), 1, splits)
        judged = epsilon == HEADLINE
        at = f"{study.title}, an account of ε = {epsilon:g} beside plain LR"
        figures += [
            Figure(
                f"{at}: AUC",
                "",
                area,
                linear[0],
                area / linear[0],
                f"at most {AREA:g} below" if judged else None,
                linear[0] - area <= AREA if judged else None,
            ),
            Figure(
                f"{at}: log-loss",
                "",
                loss,
                linear[1],
                loss / linear[1],
                f"at most {LOSS:g} above" if judged else None,
                loss - linear[1] <= LOSS if judged else None,
            ),
        ]
        print(f"{at}: {area:.4f} {loss:.4f} / {linear[0]:.4f} {linear[1]:.4f}", flush=True)
    return figures


def covered(study: Study, data: Data, draws: int) -> tuple[list[Figure], dict[str, Any]]:
    """Coverage of intervals and agreement of explanations, at the noise of an account."""
    train, test = data.split(0)
    records = LabelledRecords.read(data.rows[train], data.schema, data.labels[train])
    shown, rho = data.rows[test][:EXPLAINED], account_rho(HEADLINE)
    shares: list[float] = []
    by_feature: dict[str, list[float]] = {}
    to_plain, between, last = [], [], None
    for _ in range(draws):
        private = fitted(records, data.schema, rho, 1)
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


def main() -> int:
    warnings.simplefilter("ignore", WeakPrivacyWarning)
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--draws", type=int, default=200)
    parser.add_argument("--only", help="the name of one data set")
    chosen = parser.parse_args()
    judged: list[Figure] = []
    held: list[Figure] = []
    lines: list[list[str]] = []
    by_feature: dict[str, Any] = {}
    studies = [each for each in STUDIES if chosen.only in (None, each.name)]
    for study in studies:
        start, data = time.process_time(), Data.load(study)
        found = [*compared(study, data, chosen.splits), *repeated(study, data, chosen.splits)]
        lines += table_lines(study, found)
        judged += found
        coverage, by_feature[study.title] = covered(study, data, chosen.draws)
        held += coverage
        print(f"{study.title}: {time.process_time() - start:.0f} s of CPU", flush=True)
    if chosen.only is None:
        setting: dict[str, Any] = {
            "seed": list(range(chosen.splits)),
            "command": f"python -m experiments.private_statistics --splits {chosen.splits} "
            f"--draws {chosen.draws}",
            "data_checksum": " ".join(SOURCES[each.name].checksum[:16] for each in STUDIES),
        }
        heads = ["AUC / log-loss", "noise", *(f"ε = {epsilon:g}" for epsilon in EPSILONS)]
        write("private_statistics", "study", judged, columns=heads, rows=lines, **setting)
        write("private_statistics_coverage", "at ε = 2", held, by_feature=by_feature, **setting)
    return 0


def table_lines(study: Study, figures: Sequence[Figure]) -> list[list[str]]:
    """One line without privacy, then one for each kind of noise."""

    def pair(of: str, *, peer: bool = False) -> str:
        found = [figure for figure in figures if figure.what.startswith(of)]
        return " / ".join(f"{(each.peer if peer else each.ours) or 0:.3f}" for each in found)

    account = f"{study.title}, an account of ε = "
    plain = pair(f"{account}{EPSILONS[0]:g} ", peer=True)
    boosted = pair(f"{study.title}, boosting")
    without = f"without privacy: plain LR {plain}, boosting {boosted}"
    lines = [[study.title, without, *("" for _ in EPSILONS)]]
    lines.append(["", "an account's", *(pair(f"{account}{each:g} ") for each in EPSILONS)])
    for kind in ("pooled", f"local, {study.parties} parties"):
        at = f"{study.title}, {kind.partition(',')[0]}, ε = "
        cells = [f"{pair(f'{at}{e:g}:')} ({pair(f'{at}{e:g}:', peer=True)})" for e in EPSILONS]
        lines.append(["", f"{kind}, the study's (study)", *cells])
    return lines


if __name__ == "__main__":
    raise SystemExit(main())
