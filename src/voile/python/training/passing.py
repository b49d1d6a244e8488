"""Records that nobody keeps: for a fit without a budget, and for explanations of a loaded model."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from voile.app.calls import Context, handle
from voile.app.commands.budget import OpenBudget
from voile.app.open_records import IN_MEMORY, OpenRecords, made_up_origin, open_passing_records

ACCOUNT: Final = "fit"
DATASET: Final = "rows of a fit without a budget"
_OPEN: dict[int, OpenRecords] = {}
"""By process; explanations of a loaded model share one."""


@contextmanager
def passing_budget(epsilon: float, delta: float) -> Iterator[Context]:
    """Records with one account of this size, open for one fit."""
    records = _records()
    try:
        context = Context(service=records.service)
        terms = {"database": IN_MEMORY, "account": ACCOUNT, "dataset": DATASET}
        promise = {"epsilon": epsilon, "delta": delta, "rho_only": True}  # for Gaussian noise alone
        handle(OpenBudget.read({**terms, **promise}, "fit"), context)
        yield context
    finally:
        records.release()


def passing_context() -> Context:
    """Records without an account: what is free needs none."""
    process = os.getpid()
    if process not in _OPEN or _OPEN[process].is_closed:
        _OPEN.clear()
        _OPEN[process] = _records()
    return Context(service=_OPEN[process].service)


def _records() -> OpenRecords:
    return open_passing_records(made_up_origin(ACCOUNT), _unsaid)


def _unsaid(_line: str) -> None:
    """Thresholds of an account that one fit uses up tell nothing."""
