"""Models that protected rows may be handed to: they always answer, inside a declared set.

`voile.models.OutputSet` clamps outputs; `voile.privacy.sensitivity.OutputSet` is the pair of
numbers that a bound needs. Here the one becomes the other.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, Final

import numpy as np

from voile.attribution.fastshap import draw_rows
from voile.core.errors import Refused
from voile.core.explanation_checks import or_numbered
from voile.core.schema import Schema
from voile.models import (
    DeclaredOutputs,
    Diagnostics,
    Outputs,
    Rows,
    RowWise,
    Simplex,
    Unbounded,
    WrappedModel,
    known_model,
    row_wise,
    wrap,
)
from voile.models.outputs import ROUNDING
from voile.models.wrapped import Forward, chosen_places
from voile.privacy.sensitivity import OutputSet
from voile.release.bounded_trees import BoundedTrees
from voile.release.silence import call_suppressed, silenced

SAME_ANSWER: Final = 2.0**-20
"""How far, as a share of the width of the output set, an answer may depend on the other rows of a
batch: libraries of linear algebra round differently in another place. Known models are asked in
double precision and jump nowhere behind a sum: they stay far below."""
SAME_INPUT_SAME_OUTPUT: Final = (
    "the model answers the same input alike, up to 2^-20 of the width of its outputs, wherever it "
    "stands in a batch"
)
DECLARED_ROW_WISE: Final = (
    "the model treats the rows of a batch independently, and rounds alike up to 2^-20 of the width "
    "of its outputs: declared by whoever wrapped it, not known"
)
MODEL_IS_STATELESS: Final = (
    "the model remembers nothing between calls: the same call gets the same answer, up to 2^-20 of "
    "the width of its outputs"
)
ONE_ROW_PER_CALL: Final = (
    "the model is not known to treat rows independently and to round alike, so it gets one "
    "background row in a call: slower, and the same otherwise (voile.models.wrapped)"
)
PROBES: Final = 64
FEW_PROBES: Final = 16
STEEP: Final = SAME_ANSWER / 16
"""A known model that rounds worse than this is all but a step: weights of 10⁹ that cancel each
other show on any row. It is asked pair by pair as well."""


def predicted_or_nan(forward: Forward, outputs: int, rows: Rows) -> Outputs:
    """What the model says; NaN for rows about which it raises or answers in another form."""
    ask = partial(_numbers, forward, outputs)
    whole = call_suppressed(partial(ask, rows))
    if whole is not None:
        return whole
    single = [call_suppressed(partial(ask, row[np.newaxis])) for row in rows]
    none = np.full((1, outputs), np.nan)
    return np.concatenate([none if found is None else found for found in single])


def _numbers(forward: Forward, outputs: int, rows: Rows) -> Outputs | None:
    found = np.asarray(forward(rows))
    numbers = found.reshape(len(rows), outputs).astype(np.float64)
    return numbers if found.dtype.kind in "fiub" else None


@dataclass(frozen=True, eq=False)
class BoundedModel:
    """A model that answers every row, and where its answers lie.

    Args:
        model: never raises about what a row holds.
        outputs: how many outputs it has.
        declared: what a sensitivity needs to know.
        row_wise: why protected rows may be handed to it together; None: they may not.
        schema: of the rows.
        places: which outputs of the whole model these are; None: all of them.
    """

    model: WrappedModel
    outputs: int
    declared: OutputSet
    row_wise: RowWise | None
    schema: Schema
    places: tuple[int, ...] | None = None

    @classmethod
    def from_model(cls, model: Any, schema: Schema) -> BoundedModel:
        """Everything that can be wrong with the model is found out here, from a public row."""
        if isinstance(model, cls):
            return model  # found out before
        wrapped = model if isinstance(model, WrappedModel) else wrap(model)
        if isinstance(wrapped.outputs, Unbounded):
            raise Refused(
                "no sensitivity can be derived for outputs without a declared range; declare one: "
                "wrap(model, outputs=Box(lower, upper))"
            )
        count = wrapped.made_total().predict(schema.null_row[np.newaxis].copy()).shape[1]
        known = known_model(wrapped)
        asked, reason = (wrapped, row_wise(wrapped)) if known is None else (known, RowWise.KNOWN)
        forward = partial(predicted_or_nan, asked.forward, count)
        guarded = replace(asked, forward=forward, backward=None, total=True)
        declared = declared_set(wrapped.outputs, count)
        places = chosen_places(wrapped.forward)
        bounded = cls(guarded, count, declared, reason, schema, places)
        if bounded.row_wise is RowWise.DECLARED:
            bounded._refuse_contradiction(schema)
        if bounded.row_wise is RowWise.KNOWN and bounded._apart(schema, FEW_PROBES) > STEEP:
            return replace(bounded, row_wise=None)
        return bounded

    def _refuse_contradiction(self, schema: Schema) -> None:
        """Rows that agree prove nothing; rows that do not agree disprove the declaration."""
        apart = self._apart(schema, PROBES)
        if apart > SAME_ANSWER:
            raise Refused(
                "the model is declared to treat the rows of a batch independently, but rows drawn "
                f"from the schema get answers that differ by {apart * self.declared.diameter:.3g} "
                "alone and in a batch; leave the declaration out: it is then asked about one row "
                "at a time"
            )

    def _apart(self, schema: Schema, probes: int) -> float:
        """How far answers in batches are from answers alone, as a share of the output set's width.

        Of rows drawn from the schema, which are public.
        """
        model = replace(self.model, diagnostics=Diagnostics())
        rows = draw_rows(schema, probes, np.random.default_rng(0))
        with silenced():
            alone = np.concatenate([model.predict(row[np.newaxis].copy()) for row in rows])
            batches = [(rows, alone), (rows[::-1], alone[::-1]), (rows[: probes // 2], alone)]
            apart = [
                np.abs(model.predict(batch.copy()) - expected[: len(batch)]).max()
                for batch, expected in batches
            ]
        return float(max(apart) / self.declared.diameter)

    @cached_property
    def trees(self) -> BoundedTrees | None:
        """What it is made of, if that is trees whose leaves add up to what it answers."""
        model = replace(self.model, diagnostics=Diagnostics())
        return BoundedTrees.from_model(model, self.places, self.schema, self.declared.diameter)

    @property
    def conditions(self) -> tuple[str, ...]:
        """What has to be true of the model for one record to move its own game only."""
        if self.row_wise is None:
            return (MODEL_IS_STATELESS,)
        declared = () if self.row_wise is RowWise.KNOWN else (DECLARED_ROW_WISE,)
        return (SAME_INPUT_SAME_OUTPUT, *declared)

    @property
    def batches(self) -> str:
        """The same as a tag, for identities."""
        if self.row_wise is None:
            return "one-row-per-call"
        return "known-row-wise" if self.row_wise is RowWise.KNOWN else "declared-row-wise"

    @property
    def remarks(self) -> tuple[str, ...]:
        return (ONE_ROW_PER_CALL,) if self.row_wise is None else ()

    @property
    def names(self) -> tuple[str, ...]:
        return or_numbered(self.model.output_names, "output", self.outputs)

    @property
    def centre(self) -> Outputs:
        return self.model.outputs.centre(self.outputs)


def declared_set(declared: DeclaredOutputs, outputs: int) -> OutputSet:
    """Diameter and radius of where the outputs really lie."""
    if isinstance(declared, Simplex) and outputs == 2:
        raise Refused(
            "the probabilities of two classes are one number and its complement: release one of "
            "them, wrap(model).only(name)"
        )
    width, radius = declared.width(outputs), declared.radius(outputs)
    if not math.isfinite(width) or width <= 0:
        raise Refused(f"outputs must lie in a set of finite width above 0, found {width}")
    # Sums within `ROUNDING` of 1 count as probabilities and are left as they are.
    beside = ROUNDING if isinstance(declared, Simplex) else 0.0
    return OutputSet(width + 2 * beside, radius + beside)
