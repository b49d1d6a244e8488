"""One case: our values beside shap's, and how long both took."""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass
from itertools import combinations
from math import factorial
from typing import Any, Final

import numpy as np

import voile
from experiments.models_and_tables.cases import Array, Case

CLOSE: Final = 1e-6


@dataclass(frozen=True)
class Comparison:
    """What was found.

    Args:
        model, table: the case.
        method: what `Explainer` chose.
        outputs: how they are called.
        to_enumeration: largest difference from shap's `Exact`, relative to the largest value.
        forced: the same of `method="exact"`.
        to_own: the same from shap's explainer of this kind of model, if it has one.
        seconds: ours, from the model to the values.
        enumeration_seconds, own_seconds: shap's.
    """

    model: str
    table: str
    method: str
    outputs: list[str]
    to_enumeration: float
    forced: float
    to_own: float | None
    seconds: float
    enumeration_seconds: float
    own_seconds: float | None

    @property
    def is_close(self) -> bool:
        """Whether both of our ways agree with all coalitions."""
        return max(self.to_enumeration, self.forced) <= CLOSE


def compare(case: Case, *, shap: bool = True) -> Comparison:
    """Explain the same rows over the same background.

    Args:
        shap: whether shap is asked. Its enumeration compiles for half a minute first; the suite
            takes the definition of Shapley values in its place.
    """
    explainer, values, seconds = _ours(case)
    exact, exact_seconds = _enumerated(case) if shap else (by_definition(case), 0.0)
    theirs, own_seconds = _own(case) if shap else (None, None)
    _, forced, _ = _ours(case, method="exact", scale=_scale(explainer))
    return Comparison(
        model=case.name,
        table=case.table,
        method=explainer.method,
        outputs=explainer.output_names,
        to_enumeration=_gap(values, exact),
        forced=_gap(forced, exact),
        to_own=None if theirs is None else _gap(theirs, values),
        seconds=seconds,
        enumeration_seconds=exact_seconds,
        own_seconds=own_seconds,
    )


def _scale(explainer: Any) -> str | None:
    return explainer.scale if explainer.scale in ("log-odds", "probability") else None


def _ours(case: Case, **more: Any) -> tuple[Any, Array, float]:
    start = time.perf_counter()
    explainer = voile.Explainer(case.model, case.background, **{**case.options, **more})
    values = explainer(case.rows).explanation.values
    return explainer, values, time.perf_counter() - start


def _enumerated(case: Case) -> tuple[Array, float]:
    """All coalitions, by shap."""
    import shap

    background, rows = case.codes
    masker = shap.maskers.Independent(background, max_samples=len(background))
    start = time.perf_counter()
    found = shap.explainers.Exact(case.says, masker)(rows, interactions=False).values
    return _three_axes(found), time.perf_counter() - start


def by_definition(case: Case) -> Array:
    """Σ over coalitions S without a player of |S|!(d − |S| − 1)!/d!·(v(S and it) − v(S))."""
    background, rows = case.codes
    width = rows.shape[1]
    worths: dict[frozenset[int], Array] = {}
    for size in range(width + 1):
        for chosen in map(list, combinations(range(width), size)):
            mixed = np.repeat(background[np.newaxis], len(rows), axis=0)
            mixed[:, :, chosen] = rows[:, np.newaxis, chosen]
            said = case.says(mixed.reshape(-1, width))
            worths[frozenset(chosen)] = said.reshape(len(rows), len(background), -1).mean(axis=1)
    values = np.zeros((len(rows), width, worths[frozenset()].shape[1]))
    for coalition, worth in worths.items():
        for player in set(range(width)) - coalition:
            rest = factorial(width - len(coalition) - 1)
            weight = factorial(len(coalition)) * rest / factorial(width)
            values[:, player] += weight * (worths[coalition | {player}] - worth)
    return values


def _own(case: Case) -> tuple[Array | None, float | None]:
    """By shap's explainer for this kind of model."""
    import shap

    if not case.bare:
        return None, None
    background, rows = case.codes
    masker = shap.maskers.Independent(background, max_samples=len(background))
    start = time.perf_counter()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if case.bare == "tree":
                explainer = shap.TreeExplainer(case.model, masker)
                found = explainer.shap_values(rows, check_additivity=False)
            else:
                found = shap.LinearExplainer(case.model, masker).shap_values(rows)
    except Exception:  # a model that it does not read
        return None, None
    return _three_axes(np.asarray(found)), time.perf_counter() - start


def _three_axes(values: Array) -> Array:
    return values[:, :, np.newaxis] if values.ndim == 2 else values


def _gap(found: Array, expected: Array) -> float:
    if found.shape[2] == 2 and expected.shape[2] == 1:
        found = found[:, :, 1:]
    return float(np.abs(found - expected).max() / max(np.abs(expected).max(), 1e-12))
