"""What several releases amount to together.

- read what a list of events amounts to: `Basic`, `Advanced`, `ZeroConcentrated`, `Renyi`,
  `PrivacyLoss`, all of one interface, `Accountant`
- allow spending that depends on earlier answers: `ZeroConcentratedFilter`, `RenyiFilter`
- fix everything beforehand and pay the least: `Plan`
- show it as the odds of an attacker: `trade_off`
"""

from voile.privacy.accounting.accountants import (
    Accountant,
    Advanced,
    Basic,
    PrivacyLoss,
    Renyi,
    ZeroConcentrated,
)
from voile.privacy.accounting.filters import Filter, RenyiFilter, ZeroConcentratedFilter
from voile.privacy.accounting.plans import Plan
from voile.privacy.accounting.trade_off import gaussian_trade_off, trade_off

__all__ = [
    "Accountant",
    "Advanced",
    "Basic",
    "Filter",
    "Plan",
    "PrivacyLoss",
    "Renyi",
    "RenyiFilter",
    "ZeroConcentrated",
    "ZeroConcentratedFilter",
    "gaussian_trade_off",
    "trade_off",
]
