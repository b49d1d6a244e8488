"""Which method explains a model, and why."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final

import numpy as np

from voile.attribution import ExactShapley, KernelShapley, PermutationShapley
from voile.attribution.players import Players
from voile.attribution.trees import TreeReader, is_tree, read_trees
from voile.core.choices import member
from voile.core.errors import InvalidInput, MissingDependency
from voile.core.schema import Rows
from voile.python.plain.answers import Scale
from voile.python.plain.codec import as_finite, as_measured
from voile.python.plain.engines import (
    Engine,
    GameEngine,
    LearnedEngine,
    LinearEngine,
    TreeEngine,
    silent,
)
from voile.python.plain.models import ReadModel
from voile.python.plain.pipelines import SplitPipeline, close, split
from voile.python.progress import Progress, late_bar


class Method(StrEnum):
    """How contributions are computed; all are Shapley values over the background.

    >>> Method("tree").value
    'tree'
    """

    LINEAR = "linear"
    """A closed formula for linear models; exact."""
    TREE = "tree"
    """From the trees themselves; exact."""
    EXACT = "exact"
    """All coalitions of the columns, up to 20 of them; exact."""
    KERNEL = "kernel"
    """Regression on drawn coalitions, with standard errors."""
    PERMUTATION = "permutation"
    """Random orders of the columns, with standard errors; no bias at all."""
    LEARNED = "learned"
    """A network that is trained first; approximate, for very many rows."""


MOST_COLUMNS: Final = 16
"""Of more, values are drawn."""
MOST_EVALUATIONS: Final = 1 << 18
"""For each row; beyond it, values are drawn unless somebody asks for exact ones."""
_CHECKED: Final = 16
_CLOSE: Final = 1e-4
"""Trees of XGBoost and CatBoost are in single precision."""


class NotOffered(Exception):
    """Why a method does not suit a model; never leaves this package."""


@dataclass(frozen=True, eq=False)
class Question:
    """What there is to choose from.

    Args:
        model: what is explained.
        background: rows of it, written as numbers; enough to average over.
        scale: what the numbers shall mean, if somebody says so.
        evaluations: for each row, where values are drawn.
        seed: of what is drawn.
        progress: see `voile.python.progress.Progress`.
        everything: gives all rows of the background, written as numbers.
        learn: trains the engine of the learned method.
    """

    model: ReadModel
    background: Rows
    scale: Scale | None
    evaluations: int
    seed: int
    progress: Progress
    everything: Callable[[], Rows]
    learn: Callable[[SplitPipeline], LearnedEngine]


@dataclass(frozen=True, eq=False)
class Choice:
    """A method, why it was chosen, and what computes it."""

    method: Method
    why: str
    engine: Engine

    @property
    def scale(self) -> Scale:
        return self.engine.parts.inner.scale


def choose(question: Question, method: str | None = None) -> Choice:
    """The fastest method without error; or the one that was asked for.

    Raises:
        InvalidInput: the method that was asked for does not suit the model.
    """
    parts = split(question.model, question.background)
    parts = parts or SplitPipeline.from_whole(question.model)
    if method is not None:
        wanted = _named(method)
        try:
            return replace(_MAKERS[wanted](question, parts), why=f"you asked for it: {method!r}")
        except NotOffered as reason:
            raise InvalidInput(
                f"method: {wanted.value!r} does not suit this model: {reason}; leave `method` out, "
                f"or choose {_OTHERS}"
            ) from None
    reasons: list[str] = []
    for make in (_linear, _tree, _exact_if_small, _MAKERS[Method.KERNEL]):
        try:
            found = make(question, parts)
        except NotOffered as reason:
            reasons.append(str(reason))
        else:
            return replace(found, why="; ".join([*_told(reasons, parts), found.why]))
    raise AssertionError("values can be drawn for every model")


def _told(reasons: Sequence[str], parts: SplitPipeline) -> list[str]:
    """Why no faster method was chosen, where somebody may have expected it."""
    _, *others = [*reasons, ""]
    return [each for place, each in enumerate(others) if each and (place or is_tree(parts.final))]


_OTHERS: Final = "'exact', 'kernel' or 'permutation', which suit every model"
_SPELLINGS: Final = {"trees": "tree", "sampling": "permutation", "fastshap": "learned"}


def _named(method: str) -> Method:
    text = str(method).lower()
    return member(Method, _SPELLINGS.get(text, text))


# --- linear models --------------------------------------------------------------------------------


def _linear(question: Question, parts: SplitPipeline) -> Choice:
    title = type(parts.final).__name__
    weights = _weights(parts.final)
    if weights is None or not parts.inner.codec.is_numeric:
        raise NotOffered(f"{title} is not linear")
    for fitting in _scales(question.scale, parts):
        rows = as_measured(fitting.transform(question.background))
        both = _both(weights, fitting.inner)
        if both is not None and _is_linear(fitting, rows, both):
            engine = _linear_engine(
                fitting, as_measured(fitting.transform(question.everything())), both
            )
            return Choice(Method.LINEAR, f"{title} is linear{_in(fitting)}: exact", engine)
    raise NotOffered(f"{title} is not linear in what it predicts")


def _weights(final: Any) -> Rows | None:
    """Shape (columns, outputs)."""
    found = getattr(final, "coef_", None)
    if found is None or not hasattr(final, "intercept_"):
        return None
    found = found.toarray() if hasattr(found, "toarray") else np.asarray(found)
    if found.dtype.kind not in "fiu" or found.ndim > 2:
        return None
    return np.atleast_2d(found).T.astype(np.float64)


def _both(weights: Rows, model: ReadModel) -> Rows | None:
    """Of the chosen outputs; one score of two classes is given for both."""
    if len(model.names) == 2 and weights.shape[1] == 1:
        weights = np.concatenate([-weights, weights], axis=1)
    if weights.shape[1] != len(model.names):
        return None
    return weights[:, list(model.places)]


def _is_linear(parts: SplitPipeline, rows: Rows, weights: Rows) -> bool:
    """Whether differences of outputs are those of the formula, on background rows."""
    some = rows[: 4 * _CHECKED]
    if some.shape[1] != len(weights) or not np.isfinite(some).all():
        return False
    said = parts.inner.predict(some)
    return close((some - some[0]) @ weights, said - said[0], 1e-8)


def _linear_engine(parts: SplitPipeline, rows: Rows, weights: Rows) -> LinearEngine:
    base = parts.inner.predict(rows).mean(axis=0)
    return LinearEngine(parts, weights, rows.mean(axis=0), base)


# --- trees ----------------------------------------------------------------------------------------


def _tree(question: Question, parts: SplitPipeline) -> Choice:
    background = as_measured(parts.transform(question.background))
    checked, scale = question.background[:_CHECKED], question.scale
    with late_bar("reading the trees", question.progress) as tell:
        engine = _tree_engine(parts, background, checked, scale, tell)
    why = f"{type(parts.final).__name__} is made of trees{_in(engine.parts)}: exact"
    return Choice(Method.TREE, why, engine)


def _tree_engine(
    parts: SplitPipeline,
    background: Rows | None,
    checked: Rows,
    scale: Scale | None,
    tell: Callable[[int, int], None] | None = None,
) -> TreeEngine:
    """On the scale on which the trees add up to what the model says."""
    check_tree(parts)
    title = type(parts.final).__name__
    try:
        reader = _read_trees(parts, background, tell)
    except MissingDependency:
        raise NotOffered("trees are read by shap: pip install 'voile[explain]'") from None
    except InvalidInput as error:
        raise NotOffered(str(error)) from None
    for fitting in _scales(scale, parts):
        engine = TreeEngine(fitting, reader, _mean_output(fitting, background))
        began = time.perf_counter()
        if _adds_up(engine, checked):
            return replace(engine, row_seconds=time.perf_counter() - began)
    wanted = "" if scale is None else f" in {scale.value}"
    raise NotOffered(f"the trees of this {title} do not add up to what it predicts{wanted}")


def _read_trees(
    parts: SplitPipeline, background: Rows | None, tell: Callable[[int, int], None] | None
) -> TreeReader:
    """With the columns of the table as players."""
    if parts.is_whole:
        return read_trees(parts.final, background, progress=tell)
    if background is None:
        raise NotOffered("without a background, columns that a pipeline makes cannot be told apart")
    columns = Players(parts.whole.codec.names, parts.owners)
    return read_trees(parts.final, background, columns, tell)


def _mean_output(parts: SplitPipeline, background: Rows | None) -> Any:
    if background is None:
        return None
    return parts.inner.predict(as_finite(background)).mean(axis=0)


def choose_paths(model: ReadModel, example: Rows, scale: Scale | None) -> Choice:
    """Trees without a background.

    Args:
        example: any row.
    """
    parts = split(model, example) or SplitPipeline.from_whole(model)
    try:
        engine = _tree_engine(parts, None, example, scale)
    except NotOffered as reason:
        raise InvalidInput(
            f"background: pass typical rows, X_train for example: {reason}"
        ) from None
    title = type(parts.final).__name__
    why = f"{title} is made of trees{_in(engine.parts)}; pass a background to compare with rows"
    return Choice(Method.TREE, why, engine)


def check_tree(parts: SplitPipeline) -> None:
    """Raise `NotOffered` unless the model is made of trees over numbers."""
    title = type(parts.final).__name__
    if not is_tree(parts.final):
        raise NotOffered(f"{title} is not made of trees that can be read")
    codec = parts.inner.codec
    if not codec.is_numeric:
        words = [each.name for each in codec.columns if not hasattr(each, "dtype")]
        raise NotOffered(f"{title} takes columns that are not numbers ({', '.join(words[:3])})")
    if parts.is_whole and hasattr(parts.whole.source.model, "steps"):
        raise NotOffered("its trees do not read the columns, but mixtures of them")


def _adds_up(engine: TreeEngine, rows: Rows) -> bool:
    try:
        rows = rows[:1] if engine.reader.is_large else rows
        found = engine.explain(rows, silent)
    except Exception:  # whatever shap cannot read in them
        return False
    said = engine.parts.whole.predict(rows)
    return close(found.base + found.values.sum(axis=1), said, _CLOSE)


# --- coalitions -----------------------------------------------------------------------------------


def _exact(question: Question, parts: SplitPipeline) -> Choice:
    parts = _on_scale(question, parts)
    background = parts.transform(question.background)
    players = len(set(parts.owners.tolist()))
    if players > 20:
        raise NotOffered(f"{players} columns have too many coalitions: 20 are the most")
    why = (
        f"{players} columns and {len(background):,} background rows: all {2**players:,} coalitions "
        "of each are asked"
    )
    return Choice(Method.EXACT, why, GameEngine(parts, background, ExactShapley))


def _exact_if_small(question: Question, parts: SplitPipeline) -> Choice:
    found = _exact(question, parts)
    players = len(set(parts.owners.tolist()))
    each = 2**players * len(question.background)
    if players > MOST_COLUMNS or each > MOST_EVALUATIONS:
        raise NotOffered(
            f"exact values of {players} columns over {len(question.background):,} background rows "
            f"would ask the model {each:,} times for each row"
        )
    return found


def _sampled(kind: Any, method: Method) -> Callable[[Question, SplitPipeline], Choice]:
    def make(question: Question, parts: SplitPipeline) -> Choice:
        parts = _on_scale(question, parts)
        background = parts.transform(question.background)
        engine = GameEngine(parts, background, kind, question.evaluations, question.seed)
        why = f"{question.evaluations:,} drawn ones give values with standard errors"
        return Choice(method, why, engine)

    return make


def _learned(question: Question, parts: SplitPipeline) -> Choice:
    parts = _on_scale(question, parts)
    if not parts.inner.codec.is_numeric:
        raise NotOffered("it learns from numbers, and some columns are not")
    return Choice(Method.LEARNED, "", question.learn(parts))


_MAKERS: Final[Mapping[Method, Callable[[Question, SplitPipeline], Choice]]] = {
    Method.LINEAR: _linear,
    Method.TREE: _tree,
    Method.EXACT: _exact,
    Method.KERNEL: _sampled(KernelShapley, Method.KERNEL),
    Method.PERMUTATION: _sampled(PermutationShapley, Method.PERMUTATION),
    Method.LEARNED: _learned,
}


# --- scales ---------------------------------------------------------------------------------------


def _scales(wanted: Scale | None, parts: SplitPipeline) -> list[SplitPipeline]:
    """On which scales a model may be read: the one that was asked for, or any."""
    found = [parts, parts.on_raw_scale()]
    there = [each for each in found if each is not None]
    return [each for each in there if wanted in (None, each.inner.scale)]


def _on_scale(question: Question, parts: SplitPipeline) -> SplitPipeline:
    for each in _scales(question.scale, parts):
        return each
    raise InvalidInput(
        f"scale: this {parts.whole.source.title} has no {question.scale}; it gives "
        f"{parts.inner.scale.value}"
    )


def _in(parts: SplitPipeline) -> str:
    """Said where it is not what the model predicts by itself."""
    told = {Scale.LOG_ODDS: " in log-odds", Scale.SCORE: " in its score"}
    return told.get(parts.inner.scale, "")
