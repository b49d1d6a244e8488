"""Settings, chosen on other data: `python -m experiments.fedsva.frozen` chooses again.

Pictures: scikit-learn's digits, 20 clients of 70 rows. Noise is matched, not epsilon: what a
linear layer feels is noise over rows·√clients, so multipliers are scaled by the ratio of that
figure. Tables: the Dutch census with 100 clients of 390 rows, as on Adult; private is the column
of education.
"""

from __future__ import annotations

from itertools import product
from typing import Final

import numpy as np

from experiments.fedsva import accounted
from experiments.fedsva.accounted import Fleet, Plan, multipliers
from experiments.fedsva.data import CLIENTS, DIGITS, DUTCH, blanked, digit_pictures, federation
from experiments.fedsva.published import FEDAVG, FEDSVA, Setting, train

OURS: Final = Plan(rounds=40, norm=1.0, rate=20.0)
TABLES: Final = Plan(rounds=40, norm=1.0, rate=6.0)
ATTRIBUTES: Final = Plan(rounds=40, norm=2.0, rate=1.0)
"""For tables: rows, and private columns."""
PUBLISHED_NORM, PUBLISHED_RATE = 0.5, 1.0
"""C and the learning rate of methods as published; with the printed 20 they do not learn."""
EPSILONS: Final = (0.2, 0.3, 0.4, 0.5)
MATCHED: Final = 70 * 20**0.5 / (571 * 100**0.5)
"""Rows·√clients of the digits over those of MNIST by writer."""


def main() -> None:
    digits, dutch = federation(DIGITS), federation(DUTCH)
    for rounds, norm, rate in product((20, 40), (0.25, 0.5, 1.0), (10.0, 20.0, 40.0)):
        plan = Plan(rounds, norm, rate)
        fleets = [Fleet.alike(multipliers(e, plan) * MATCHED, 20) for e in (0.2, 0.5, 2.0)]
        runs = [accounted.train(digits, each, plan, s) for each in fleets for s in (0, 1)]
        print("ours", plan, f"{np.mean([run.accuracy[-1] for run in runs]):.3f}", flush=True)
    for norm, rate in product((0.02, 0.1, 0.5, 2.0), (0.1, 1.0)):
        setting = Setting(0.5, 100, 0, norm, rate)
        runs = [train(digits, method, setting) for method in (FEDAVG, FEDSVA)]
        print("published", norm, rate, [f"{np.mean(r.accuracy[-5:]):.3f}" for r in runs])
    setting = Setting(0.2, 100, 0, PUBLISHED_NORM, PUBLISHED_RATE)
    without = train(blanked(dutch), FEDAVG, setting)
    for rounds, norm, rate in product((20, 40, 80), (1.0, 2.0, 3.0), (0.5, 1.0, 3.0, 6.0)):
        plan = Plan(rounds, norm, rate)
        rows = Fleet.alike(multipliers(0.2, plan), CLIENTS)
        columns = accounted.for_attributes(dutch, 0.2, plan, without)
        reached = [accounted.train(dutch, fleet, plan, 0).accuracy[-1] for fleet in (rows, columns)]
        print("rows, attributes", plan, [f"{each:.4f}" for each in reached], flush=True)
    for rate in (0.5, 1.0, 2.0):
        print("convolutions", rate, f"{_convolutions(rate):.3f}", flush=True)


def _convolutions(rate: float) -> float:
    """Two convolutions on the digits, in a frame of 28 × 28 pixels; half of the rows a step."""
    from experiments.fedsva.networks import ConvolutionPlan, noise_for, pictures_of, private_rounds

    x, y = digit_pictures()
    framed = np.pad(x, ((0, 0), (2, 2), (2, 2)))
    train, test = np.arange(1400).reshape(20, 70), np.arange(1400, len(x))
    pictures = pictures_of((framed[train], y[train]), (framed[test], y[test]))
    matched = noise_for(2.0, ConvolutionPlan()) * 35 * 20**0.5 / (57.1 * 100**0.5)
    plan = ConvolutionPlan(sampling_rate=0.5, rate=rate)
    return private_rounds(pictures, plan, matched, 0)[1]


if __name__ == "__main__":
    main()
