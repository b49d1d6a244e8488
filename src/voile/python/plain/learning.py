"""The learned method: a network that gives the values in one pass, trained on the background."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from voile.attribution.fastshap import (
    EXPLAINER_PLAN,
    SURROGATE_PLAN,
    train_explainer,
    train_surrogate,
)
from voile.core.errors import InvalidInput
from voile.core.randomness import Seeded
from voile.core.schema import Rows
from voile.models import WrappedModel
from voile.python.plain.engines import LearnedEngine, players
from voile.python.plain.pipelines import SplitPipeline
from voile.python.progress import Progress, shown

MOST_ROWS: Final = 20_000
_STEPS: Final = SURROGATE_PLAN.steps + EXPLAINER_PLAN.steps
_SECONDS: Final = 60.0
"""About, on one core."""


def train(parts: SplitPipeline, rows: Rows, seed: int, progress: Progress) -> LearnedEngine:
    """Imitate the model on coalitions, then learn the Shapley values of what imitates it.

    Args:
        parts: what is explained.
        rows: transformed rows of the background, the more the better.
        seed: of the training.
        progress: see `voile.python.progress.Progress`.
    """
    if len(rows) < 20:
        raise InvalidInput(
            f"background: the method 'learned' needs at least 20 rows, found {len(rows)}"
        )
    chosen = np.random.default_rng(seed).permutation(len(rows))[:MOST_ROWS]
    names, groups = players(parts)
    model = WrappedModel(
        forward=parts.inner.predict,
        identity=str,
        output_names=parts.inner.output_names,
        feature_names=tuple(names),
    )
    source = Seeded(seed)
    with shown("learning to explain", _STEPS, _SECONDS, progress) as tell:
        common: dict[str, Any] = {"source": source, "progress": _steps(tell)}
        surrogate = train_surrogate(
            model, rows[chosen], groups=groups, plan=SURROGATE_PLAN, **common
        )
        common["progress"] = _steps(tell)
        explainer = train_explainer(surrogate, rows[chosen], plan=EXPLAINER_PLAN, **common)
    return LearnedEngine(parts, explainer)


def _steps(tell: Callable[[int], None]) -> Any:
    """From the number of steps so far to those since the last report."""
    before = 0

    def report(done: int, total: int) -> None:  # noqa: ARG001
        nonlocal before
        tell(done - before)
        before = done

    return report
