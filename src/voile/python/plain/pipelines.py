"""A pipeline taken apart: columns are transformed once, and the last step is explained.

Attribution mixes the columns of two rows. Where each column of a transformed table comes from one
column alone, mixing before the transformation or after it gives the same. So rows are transformed
once, and the last step is asked directly: often a hundred times faster than the whole pipeline.

Which steps treat columns one by one is known from a list; what was found is checked on mixed rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from voile.core.schema import Rows
from voile.models import Outputs
from voile.python.plain.answers import Answers, Source, final_of, refitted, source_of
from voile.python.plain.models import ReadModel, failed, fitting_codec

Owners: TypeAlias = NDArray[np.intp]
"""Shape (transformed columns,): from which column of the table each is made."""

_ONE_TO_ONE: Final = frozenset(
    {
        *("StandardScaler", "MinMaxScaler", "MaxAbsScaler", "RobustScaler", "Binarizer"),
        *("QuantileTransformer", "PowerTransformer", "OrdinalEncoder", "SimpleImputer"),
        *("KBinsDiscretizer", "TargetEncoder"),
    }
)
_WIDEST: Final = 1_000
"""Transformed columns; of more, mixing them costs more than transforming."""
_MIXED: Final = 32
_CLOSE: Final = 1e-9


@dataclass(frozen=True, eq=False)
class SplitPipeline:
    """The last step of a pipeline, as a model of transformed columns; of other models, all of it.

    Args:
        whole: the pipeline, for rows as people write them.
        inner: the last step; its codec reads transformed tables.
        steps: all steps but the last; None where nothing is split off.
        owners: from which column each transformed one is made.
    """

    whole: ReadModel
    inner: ReadModel
    steps: Any
    owners: Owners

    @classmethod
    def from_whole(cls, model: ReadModel) -> SplitPipeline:
        """Nothing is split off."""
        return cls(model, model, None, np.arange(len(model.codec.columns)))

    @property
    def is_whole(self) -> bool:
        """Whether rows reach the model as they are."""
        return self.steps is None

    @property
    def final(self) -> Any:
        """The estimator that is asked, by itself."""
        return refitted(final_of(self.inner.source.model))

    @property
    def is_one_to_one(self) -> bool:
        """Whether each column becomes one column at most."""
        return len(set(self.owners.tolist())) == len(self.owners)

    def transform(self, rows: Rows) -> Rows:
        """Rows that are written as numbers, transformed, and written as numbers again."""
        if self.steps is None:
            return rows
        table = self.whole.codec.decode(rows)
        try:
            table = transformed(self.steps, table)
        except Exception as error:
            raise failed(self.whole.source.title, error) from error
        return self.inner.codec.encode(table)

    def on_raw_scale(self) -> SplitPipeline | None:
        """The same with log-odds in place of probabilities; None if the model has none."""
        whole, inner = self.whole.on_raw_scale(), self.inner.on_raw_scale()
        return None if whole is None or inner is None else replace(self, whole=whole, inner=inner)


def split(model: ReadModel, rows: Rows) -> SplitPipeline | None:
    """Take a pipeline apart; None if it is none, or if a step looks at several columns together.

    Args:
        rows: of the background, written as numbers; the parts are compared with the whole on them.
    """
    pipeline = model.source.model
    steps = getattr(pipeline, "steps", None)
    if not isinstance(steps, list) or len(steps) < 2 or model.source.asked == "predict":
        return None
    owners = sources(pipeline[:-1], np.arange(len(model.codec.columns)))
    if owners is None:
        return None
    try:
        found = _taken_apart(model, pipeline[:-1], owners, rows)
    except Exception:  # whatever is unusual in it: the whole pipeline can be asked
        return None
    return found if found is not None and _agree(found, rows) else None


def transformed(steps: Any, table: Any) -> Any:
    """A table or an array, whatever the steps give."""
    found = steps.transform(table)
    return found.toarray() if hasattr(found, "toarray") else found


def _taken_apart(model: ReadModel, steps: Any, owners: Owners, rows: Rows) -> SplitPipeline | None:
    table = transformed(steps, model.codec.decode(rows))
    width = table.shape[1]
    owners = np.broadcast_to(owners, (width,)) if len(owners) == 1 else owners
    if width != len(owners) or width > _WIDEST:
        return None
    source = source_of(final_of(model.source.model))
    codec, _ = fitting_codec(source, table)
    answers = _same_answers(model, source)
    if answers is None:
        return None
    inner = replace(model, source=source, codec=codec, answers=answers)
    return SplitPipeline(model, inner, steps, owners)


def _same_answers(model: ReadModel, final: Source) -> Answers | None:
    """What is asked of the pipeline, asked of its last step."""
    found = [each for each in (final.answers, final.raw) if each is not None]
    for each in found:
        if each.scale is model.scale:
            return replace(each, labels=model.answers.labels)
    return None


def _agree(split: SplitPipeline, rows: Rows) -> bool:
    """Whether mixing columns before and after the transformation gives the same."""
    draw = np.random.default_rng(0)
    chosen = rows[draw.permutation(len(rows))[:_MIXED]]
    other = chosen[draw.permutation(len(chosen))]
    takes = draw.random(chosen.shape) < 0.5
    before = split.whole.predict(np.where(takes, chosen, other))
    inside = takes[:, split.owners]
    mixed = np.where(inside, split.transform(chosen), split.transform(other))
    return close(split.inner.predict(mixed), before, _CLOSE)


def close(found: Outputs, expected: Outputs, tolerance: float) -> bool:
    """Equal up to a part of the size of the outputs."""
    size = 1 + np.abs(expected).max()
    return found.shape == expected.shape and bool(
        np.abs(found - expected).max() <= tolerance * size
    )


# --- from which column a transformed column is made -----------------------------------------------


def sources(step: Any, given: Owners) -> Owners | None:
    """For each column that a step hands on, the column of the table it is made from.

    None if a step looks at several of them, or if that is not known. One entry stands for any
    number of columns.

    Args:
        given: for each column that the step is given, the column of the table it is made from.
    """
    if step is None or isinstance(step, str):
        return given[:0] if step == "drop" else given
    if isinstance(getattr(step, "steps", None), list):
        return _through(step.steps, given)
    if hasattr(step, "output_indices_"):
        return _by_column(step, given)
    if hasattr(step, "transformer_list"):
        return _joined(sources(each, given) for _, each in step.transformer_list)
    return _of_step(step, given)


def _through(steps: Sequence[tuple[str, Any]], given: Owners) -> Owners | None:
    found: Owners | None = given
    for _, step in steps:
        found = None if found is None else sources(step, found)
    return found


def _joined(parts: Iterator[Owners | None]) -> Owners | None:
    found = list(parts)
    if any(each is None for each in found):
        return None
    return np.concatenate([each for each in found if each is not None])


def _by_column(step: Any, given: Owners) -> Owners | None:
    """A `ColumnTransformer`: each of its parts, in the order of what it hands on."""
    places: dict[int, int] = {}
    for name, part, columns in step.transformers_:
        owners = sources(part, given[_chosen(step, columns)])
        span = step.output_indices_[name]
        width = span.stop - span.start
        if owners is None:
            return None
        if len(owners) == 1:
            owners = owners.repeat(width)
        if len(owners) != width:
            return None
        places.update(zip(range(span.start, span.stop), owners.tolist(), strict=True))
    return np.array([places[place] for place in range(len(places))], dtype=np.intp)


def _chosen(step: Any, columns: Any) -> NDArray[np.intp]:
    """Places of columns that are given by name, by place, by a slice or by a mask."""
    names = [str(name) for name in getattr(step, "feature_names_in_", ())]
    if isinstance(columns, str):
        columns = [columns]
    if not isinstance(columns, slice) and len(columns) and isinstance(columns[0], str):
        return np.array([names.index(name) for name in columns], dtype=np.intp)
    every = np.arange(step.n_features_in_)
    return np.atleast_1d(every[columns if isinstance(columns, slice) else np.asarray(columns)])


def _of_step(step: Any, given: Owners) -> Owners | None:
    """A transformer by itself: one column makes all that comes out, or its kind is known."""
    home, name = type(step).__module__.partition(".")[0], type(step).__name__
    if len(set(given.tolist())) == 1 and hasattr(step, "transform"):
        return given[:1]
    if home != "sklearn":
        return None
    if name == "OneHotEncoder":
        return np.repeat(given, np.asarray(step._n_features_outs))
    if hasattr(step, "get_support"):
        return np.compress(step.get_support(), given)
    return given if name in _ONE_TO_ONE and _keeps_width(step, len(given)) else None


def _keeps_width(step: Any, width: int) -> bool:
    """Whether one column comes out for each that goes in; else it is not known which is which."""
    try:
        return len(step.get_feature_names_out()) == width
    except (AttributeError, ValueError):
        return False
