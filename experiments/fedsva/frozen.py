"""Settings, chosen on scikit-learn's digits: `python -m experiments.fedsva.frozen` chooses again.

The digits have 20 clients of 70 rows. Noise is matched, not epsilon: what matters to a linear layer
is noise over rows·√clients, so multipliers are scaled by the ratio of that figure. On Adult, whose
columns are not of length 1, the rate is divided by the mean squared length that the schema implies.
"""

from __future__ import annotations

from itertools import product
from typing import Final

import numpy as np

from experiments.fedsva import accounted
from experiments.fedsva.accounted import Fleet, Plan, multipliers
from experiments.fedsva.data import DIGITS, federation
from experiments.fedsva.published import FEDAVG, FEDSVA, Setting, train

OURS: Final = Plan(rounds=40, norm=1.0, rate=20.0)
PUBLISHED_NORM, PUBLISHED_RATE = 0.5, 1.0
"""C and the learning rate of methods as published; with the printed 20 they do not learn."""
EPSILONS: Final = (0.2, 0.3, 0.4, 0.5)
MATCHED: Final = 70 * 20**0.5 / (571 * 100**0.5)
"""Rows·√clients of the digits over those of MNIST by writer."""


def main() -> None:
    digits = federation(DIGITS)
    for rounds, norm, rate in product((10, 20, 40), (0.25, 0.5, 1.0), (5.0, 10.0, 20.0, 40.0)):
        plan = Plan(rounds, norm, rate)
        fleets = [Fleet.alike(multipliers(e, plan) * MATCHED, 20) for e in (0.2, 0.5, 2.0)]
        runs = [accounted.train(digits, each, plan, s) for each in fleets for s in (0, 1)]
        print("ours", plan, f"{np.mean([run.accuracy[-1] for run in runs]):.3f}", flush=True)
    for norm, rate in product((0.02, 0.1, 0.5, 2.0), (0.1, 1.0)):
        setting = Setting(0.5, 100, 0, norm, rate)
        runs = [train(digits, method, setting) for method in (FEDAVG, FEDSVA)]
        print("published", norm, rate, [f"{np.mean(r.accuracy[-5:]):.3f}" for r in runs])


if __name__ == "__main__":
    main()
