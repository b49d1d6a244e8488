"""Small federations: 8 parties of 100 rows each, at ε = 2.

Sums over parties are sums over all rows, so a federation is 800 rows and a noise. In a secure sum
that six or all parties must survive, and one of these may collude, noise is shared for the h honest
ones. All survive here, so it is 8/h times that of one data set. With local noise it is 8 times.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from benchmarks.harness import Figure

from experiments.private_statistics.federated import trained
from experiments.private_statistics.setting import (
    DELTA,
    HEADLINE,
    Data,
    Study,
    account_rho,
    fitted,
    linear_model,
    scored,
)
from voile.app.train_quality import CalibrationFigures, charged_quality
from voile.datasets import clinic_federation
from voile.release.statistics import LabelledRecords, PrivateStatistics, StatisticsBudget
from voile.release.statistics.releases import weak_signal

PARTIES, ROWS, TESTED = 8, 100, 4000
COLLUDERS, MUST_SURVIVE = 1, 6
SHARED: Final = "shared, 6 must survive"
NOISES: Final = {
    SHARED: PARTIES / (MUST_SURVIVE - COLLUDERS),
    "shared, all must survive": PARTIES / (PARTIES - COLLUDERS),
    "local": float(PARTIES),
}
"""Variance over that of the noise of one data set."""
AREA: Final = 0.03
"""What `SHARED` noise may lose to logistic regression without privacy."""
COLUMNS = (
    "8 parties of 100 rows, ε = 2",
    "noise",
    "signal",
    "AUC / log-loss",
    "plain LR, no privacy",
    "label rate alone",
    "runs worse than the label rate",
    "of these with an alarm",
)


@dataclass(frozen=True)
class Run:
    """One federation of 800 rows, judged on rows that had no part in it.

    Args:
        ours, plain: area under the curve and log-loss.
        constant: log-loss of always stating the label rate of the 800 rows.
        alarmed: whether the charged calibration table raised an alarm.
    """

    ours: tuple[float, float]
    plain: tuple[float, float]
    constant: float
    alarmed: bool

    @property
    def is_useless(self) -> bool:
        return self.ours[1] >= self.constant


def small_table(studies: Sequence[Study], draws: int) -> dict[str, Any]:
    """Of each set, and of the generated clinic, also by the real rounds on threads."""
    lines: list[list[str]] = []
    figures: list[Figure] = []

    def add(title: str, data: Data, noise: str, fit: Fit) -> None:
        budget = _budget(data, NOISES[noise.partition(" (")[0]])
        refused = bool(weak_signal(budget))
        runs = [one_run(data, seed, fit) for seed in range(draws)]
        lines.append(line(title, noise, budget.signal, runs, refused))
        figures.extend(judged(f"{title}, {noise}", runs, refused, noise == SHARED))
        print(" | ".join(lines[-1]), flush=True)

    for study in studies:
        data = Data.load(study)
        for noise, factor in NOISES.items():
            add(study.title, data, noise, simulated(data, factor))
    clinic = _clinic()
    for noise, factor in NOISES.items():
        add("generated clinic", clinic, noise, simulated(clinic, factor))
    add("generated clinic", clinic, f"{SHARED} (real rounds)", on_threads(clinic))
    return {"peer": "plain LR without privacy", "figures": figures, "columns": COLUMNS,
            "rows": lines}  # fmt: skip


Fit = Callable[[LabelledRecords], PrivateStatistics]


def simulated(data: Data, noises: float) -> Fit:
    """One table with so many times the noise of a single one."""
    return lambda records: fitted(records, data.schema, account_rho(HEADLINE), noises)


def on_threads(data: Data) -> Fit:
    """Three rounds over the secure sum, each party with its share of the noise."""

    def fit(records: LabelledRecords) -> PrivateStatistics:
        parties = {f"party {place}": _part(records, place) for place in range(PARTIES)}
        rounds = trained(
            data.schema, parties, epsilon=HEADLINE, delta=DELTA, threshold=MUST_SURVIVE
        )
        return rounds.statistics

    return fit


def _part(records: LabelledRecords, place: int) -> LabelledRecords:
    own = slice(place, None, PARTIES)
    return LabelledRecords(records.rows[own], records.labels[own], records.null[own])


def _clinic() -> Data:
    clinic = clinic_federation(ROWS + TESTED // 8).together()
    return Data(clinic.schema, clinic.rows, clinic.labels)


def _budget(data: Data, noises: float) -> StatisticsBudget:
    from voile.core.guarantee import Relation

    return StatisticsBudget(
        schema=data.schema,
        rows=PARTIES * ROWS,
        relation=Relation.BLANK_ONE,
        rho=account_rho(HEADLINE) / noises,
    )


def one_run(data: Data, seed: int, fit: Fit) -> Run:
    order = np.random.default_rng(2000 + seed).permutation(len(data.labels))
    train, test = order[: PARTIES * ROWS], order[PARTIES * ROWS :][:TESTED]
    records = LabelledRecords.read(data.rows[train], data.schema, data.labels[train])
    found = fit(records)
    labels = data.labels[test]
    rate = np.full(len(test), data.labels[train].mean())
    return Run(
        ours=scored(labels, found.model.predict(data.rows[test])[:, 1]),
        plain=scored(labels, linear_model(data, train)(test)),
        constant=scored(labels, rate)[1],
        alarmed=is_alarmed(found),
    )


def is_alarmed(found: PrivateStatistics) -> bool:
    return bool(charged_quality(CalibrationFigures.from_releases(found))["alarms"])


def judged(what: str, runs: Sequence[Run], refused: bool, is_target: bool) -> list[Figure]:
    """Only `SHARED` noise has targets; a refusal before anything is spent meets the second."""
    ours, plain = (float(np.mean([getattr(run, name)[0] for run in runs])) for name in _PAIR)
    silent = sum(run.is_useless and not run.alarmed for run in runs)
    found = [
        Figure(f"{what}: AUC", "", ours, plain, ours / plain, f"at most {AREA:g} below",
               plain - ours <= AREA),
        Figure(f"{what}: runs of {len(runs)} worse than the label rate, without alarm or refusal",
               "", 0 if refused else silent, None, None, "none", refused or not silent),
    ]  # fmt: skip
    return found if is_target else [replace(each, target=None, met=None) for each in found]


_PAIR = ("ours", "plain")


def line(title: str, noise: str, signal: float, runs: Sequence[Run], refused: bool) -> list[str]:
    means: Mapping[str, Any] = {
        name: np.mean([getattr(run, name) for run in runs], axis=0) for name in _PAIR
    }
    pairs = [f"{area:.3f} / {loss:.3f}" for area, loss in means.values()]
    useless = [run for run in runs if run.is_useless]
    return [
        title,
        noise,
        f"{signal:.0f}" + (", refused" if refused else ""),
        *pairs,
        f"{np.mean([run.constant for run in runs]):.3f}",
        f"{len(useless)} of {len(runs)}",
        f"{sum(run.alarmed for run in useless)}",
    ]
