"""What several releases amount to together.

- read what a list of events amounts to: `Basic`, `ZeroConcentrated`, `PrivacyLoss`
- allow spending that depends on earlier answers: `ZeroConcentratedFilter`
- fix everything beforehand and pay the least: `Plan` (`tightest_epsilon`)
"""

from voile.privacy.accounting.accountants import (
    Basic,
    Plan,
    PrivacyLoss,
    ZeroConcentrated,
    tightest_epsilon,
)
from voile.privacy.accounting.filters import ZeroConcentratedFilter

__all__ = [
    "Basic",
    "Plan",
    "PrivacyLoss",
    "ZeroConcentrated",
    "ZeroConcentratedFilter",
    "tightest_epsilon",
]
