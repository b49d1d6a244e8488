"""Pictures of explanations. Every function returns a matplotlib figure and changes nothing else.

- which features matter most: `bar`, `beeswarm`
- what an additive model says about each feature: `curves`
- why this prediction: `waterfall`; how sure are we: `whiskers`
- do two explanations agree: `agreement`
- do predictions come true as often as they say: `calibration`
- who took part in a federation, what it cost, how good it got: `rounds`, `budgets`, `learning`
- whom a federation trusts, who stands out and who earns what: `trust`
"""

from voile.views.plots.bars import bar, whiskers
from voile.views.plots.beeswarms import beeswarm
from voile.views.plots.comparing import agreement
from voile.views.plots.curves import curves
from voile.views.plots.federations import budgets, calibration, learning, rounds, trust
from voile.views.plots.waterfalls import waterfall

__all__ = [
    "agreement",
    "bar",
    "beeswarm",
    "budgets",
    "calibration",
    "curves",
    "learning",
    "rounds",
    "trust",
    "waterfall",
    "whiskers",
]
