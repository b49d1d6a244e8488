"""Private statistics: three charged sums over rows, from which a model is made for free.

In order: `PrivateFineTables` gives `FineTables`; with these, `PrivateMoments` gives
`CentredMoments`; with both, `PrivateCalibrationTable` gives a `CalibrationTable`. A
`StatisticsBudget` says how much noise each of them gets, from public facts.

`PrivateStatistics` holds all three. Its `model` is an `AdditiveModel` with standard errors;
`joint_guarantee` says what was promised.
"""

from voile.release.statistics.budget import StatisticsBudget
from voile.release.statistics.private_statistics import PrivateStatistics, joint_guarantee
from voile.release.statistics.releases import (
    CalibrationTable,
    CentredMoments,
    FineTables,
    PrivateCalibrationTable,
    PrivateFineTables,
    PrivateMoments,
)
from voile.release.statistics.sums import LabelledRecords

__all__ = [
    "CalibrationTable",
    "CentredMoments",
    "FineTables",
    "LabelledRecords",
    "PrivateCalibrationTable",
    "PrivateFineTables",
    "PrivateMoments",
    "PrivateStatistics",
    "StatisticsBudget",
    "joint_guarantee",
]
