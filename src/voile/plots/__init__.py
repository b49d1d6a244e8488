"""Pictures of explanations. Every function returns a matplotlib figure and changes nothing else.

- which features matter most: `bar`, `beeswarm`
- why this prediction: `waterfall`; how sure are we: `whiskers`
- do two explanations agree: `agreement`
- what does privacy cost: `privacy_quality`, from `QualityPoint`s
- do predictions come true as often as they say: `calibration`
- how rows are spread over clients: `partition`
- who took part in a federation, what it cost, how good it got: `rounds`, `budgets`, `learning`
- whom a federation trusts, who stands out and who earns what: `trust`
"""

from voile.plots.bars import bar
from voile.plots.beeswarms import beeswarm
from voile.plots.comparing import agreement
from voile.plots.curves import QualityPoint, calibration, privacy_quality
from voile.plots.federations import budgets, learning, rounds
from voile.plots.partitions import partition
from voile.plots.trust import trust
from voile.plots.waterfalls import waterfall
from voile.plots.whiskers import whiskers

__all__ = [
    "QualityPoint",
    "agreement",
    "bar",
    "beeswarm",
    "budgets",
    "calibration",
    "learning",
    "partition",
    "privacy_quality",
    "rounds",
    "trust",
    "waterfall",
    "whiskers",
]
