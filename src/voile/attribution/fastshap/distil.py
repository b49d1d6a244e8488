"""Distillation: an explainer of a surrogate, trained without any data.

If the surrogate is public, or private by its training, everything here is post-processing: inputs
come from the public schema and from what the surrogate itself reveals, answers from the surrogate.
Only the optional look at real rows touches data, and its result is for their custodian.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from voile.attribution.fastshap.consistent import consistent_rows
from voile.attribution.fastshap.explainer import FastShap
from voile.attribution.fastshap.learning import EXPLAINER_PLAN, OBJECTIVE, learn
from voile.attribution.fastshap.marginals import inferred_marginals
from voile.attribution.fastshap.objectives import Objective
from voile.attribution.fastshap.quality import Quality, quality
from voile.attribution.fastshap.surrogate import Surrogate
from voile.core.errors import InvalidInput
from voile.core.one_thread import one_thread
from voile.core.randomness import GeneratorSource
from voile.core.schema import Rows, Schema
from voile.core.schema.draws import draw_rows
from voile.training import Array, Progress, TrainingPlan

JUDGED: Final = 200
VALIDATED: Final = 1_024
MOST_CONSISTENT: Final = 30_000
USES: Final = 10
"""Drawing a consistent row costs as much as learning from it this many times, so short plans draw
fewer; its coalitions are fresh at every use."""


@dataclass(frozen=True, eq=False)
class Distilled:
    """A distilled explainer and how good it is.

    Args:
        explainer: the explainer.
        on_schema: its quality on rows drawn from the schema, not used in training.
        on_rows: its quality on real rows, where some were allowed; computed from exact data, so on
            protected rows it is for their custodian only.
    """

    explainer: FastShap
    on_schema: Quality
    on_rows: Quality | None = None


@one_thread()
def distil(
    surrogate: Surrogate,
    schema: Schema,
    *,
    source: GeneratorSource,
    plan: TrainingPlan = EXPLAINER_PLAN,
    objective: Objective = OBJECTIVE,
    inferred_share: float = 0.75,
    unprotected_rows: Any = None,
    progress: Progress | None = None,
) -> Distilled:
    """Train an explainer on rows drawn from a schema alone.

    Args:
        surrogate: what is explained; its features must be those of the schema.
        schema: what rows may look like: public.
        source: where randomness comes from.
        plan: how long and how hard to train.
        objective: `KernelRegression` or `NoisyLabels`.
        inferred_share: the share of training rows that look as the surrogate itself suggests
            (`consistent_rows`); the others are uniform.
        unprotected_rows: real rows that quality may be reported on; training never sees them.
        progress: told how far the work is.
    """
    _check_schema(surrogate, schema)
    if not 0 <= inferred_share <= 1:
        raise InvalidInput(f"inferred_share must lie between 0 and 1, found {inferred_share}")
    draw = source.generator()
    marginals = inferred_marginals(surrogate, schema)

    def likely(count: int) -> Rows:
        return consistent_rows(surrogate, marginals, count, draw)

    def beside(found: Rows, count: int) -> Rows:
        return np.concatenate([draw_rows(schema, count - len(found), draw), found])

    in_batch = int(inferred_share * plan.batch_rows)
    kept = likely(min(MOST_CONSISTENT, max(in_batch, plan.steps * in_batch // USES)))

    def more(count: int) -> Array:
        found = kept[draw.integers(0, len(kept), in_batch)] if in_batch else kept
        return surrogate.encoding.columns(beside(found, count))

    held_out = beside(likely(int(inferred_share * VALIDATED)), VALIDATED)
    explainer = learn(
        surrogate,
        more,
        held_out,
        draw,
        plan=plan,
        objective=objective,
        progress=progress,
        sees_surrogate=True,  # uniform rows leave a network of columns alone far behind
    )
    return Distilled(
        explainer,
        quality(explainer, draw_rows(schema, JUDGED, draw)),
        None if unprotected_rows is None else quality(explainer, unprotected_rows),
    )


def _check_schema(surrogate: Surrogate, schema: Schema) -> None:
    if schema.feature_names != surrogate.feature_names:
        raise InvalidInput(
            f"the surrogate has the features {list(surrogate.feature_names)[:5]}…, the schema "
            f"{list(schema.feature_names)[:5]}…; they must be the same, in the same order"
        )
    if surrogate.schema is not None and surrogate.schema.digest != schema.digest:
        raise InvalidInput(
            f"the surrogate was trained with another schema than {schema.name!r}; "
            "pass `surrogate.schema`"
        )
