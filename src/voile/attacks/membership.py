"""Was a row used in training? By losses."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from voile.pipelines.tables import NetworkModel, TableRecords
from voile.training import TargetLoss

Floats: TypeAlias = NDArray[np.float64]


def losses(model: NetworkModel, records: TableRecords) -> Floats:
    """Of each record with a label."""
    known = records.only(~np.isnan(records.labels))
    loss = TargetLoss(model.output_head.head)
    found = loss.values(model.network(known.columns), (known.columns, known.targets))
    return np.asarray(found, dtype=np.float64)


def area_under_curve(members: Floats, others: Floats) -> float:
    """The chance that a member's score lies above somebody else's; equal ones count one half."""
    both = np.concatenate([members, others])
    order = both.argsort(kind="stable")
    ranks = np.empty(len(both))
    _, place, counts = np.unique(both[order], return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    ranks[order] = ((ends - counts + 1 + ends) / 2)[place]
    above = ranks[: len(members)].sum() - len(members) * (len(members) + 1) / 2
    return float(above / (len(members) * len(others)))


def advantage_of(members: Floats, others: Floats) -> dict[str, float]:
    """Area under the curve, and the largest gap between true and false positive rates."""
    cuts = np.unique(np.concatenate([members, others]))
    true = 1 - np.searchsorted(np.sort(members), cuts) / len(members)
    false = 1 - np.searchsorted(np.sort(others), cuts) / len(others)
    return {
        "area_under_curve": area_under_curve(members, others),
        "largest_gap": float(np.max(true - false)),
    }
