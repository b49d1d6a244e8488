"""Models as people have them: what they are asked, with which tables, and which output is meant."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

import numpy as np

from voile.core.errors import InvalidInput, VoileError
from voile.core.explanation_checks import distinct_names
from voile.core.schema import Rows
from voile.datasets.frames import check_names, columns_of, is_frame
from voile.models import Outputs
from voile.python.plain.answers import Answers, Scale, Source, source_of
from voile.python.plain.codec import TableCodec
from voile.python.plain.table_kinds import (
    DictTables,
    NumpyTables,
    PandasTables,
    TableKind,
    array_kind,
)

Chosen: TypeAlias = Any
"""A class label, the name of an output, several of them, or "all"."""

ALL: Final = "all"
_TRIED: Final = 8
"""Rows of the background that tell which kind of table a model takes."""
_EVEN: Final = 1e-4


@dataclass(frozen=True, eq=False)
class ReadModel:
    """A model, what is asked of it, and how rows reach it.

    Args:
        source: the model as somebody has it.
        codec: rows as numbers, and back as the model's tables.
        answers: what is asked.
        names: one per output.
        places: which of the outputs are explained.
    """

    source: Source
    codec: TableCodec
    answers: Answers
    names: tuple[str, ...]
    places: tuple[int, ...]

    @property
    def scale(self) -> Scale:
        """What the explained numbers mean."""
        return self.answers.scale

    @property
    def output_names(self) -> tuple[str, ...]:
        """Of the outputs that are explained."""
        return tuple(self.names[place] for place in self.places)

    def predict(self, rows: Rows) -> Outputs:
        """Outputs of rows that are written as numbers, shape (n, outputs)."""
        return self.ask(self.codec.decode(rows))

    def ask(self, table: Any) -> Outputs:
        """Outputs of a table of the model's own kind."""
        return called(self.answers, table, self.source.title)[:, list(self.places)]

    def on_raw_scale(self) -> ReadModel | None:
        """The same with log-odds in place of probabilities; None if the model has none."""
        raw = self.source.raw
        if self.scale is not Scale.PROBABILITY or raw is None:
            return None
        return replace(self, answers=raw)


def read_model(
    model: Any,
    background: Any,
    *,
    output: Chosen = None,
    output_names: Sequence[str] | None = None,
) -> ReadModel:
    """Find out what a model is, which tables it takes and what its outputs are called.

    Assumes that the background has the columns the model was fitted on. Promises that the model
    gets tables of the kind and the types of the background.

    Args:
        model: a fitted estimator or pipeline, a booster, a torch module, an ONNX file or session,
            a function, or anything with `predict_proba` or `predict`.
        background: rows as the model takes them.
        output: which output to explain: a class label, several of them, or "all". Without one, the
            positive class of two, else all.
        output_names: one per output, where the model has no names or others are wanted.

    >>> from sklearn.linear_model import LogisticRegression
    >>> rows = np.array([[0.0, 1.0], [1.0, 0.0], [2.0, 1.0]])
    >>> found = read_model(LogisticRegression().fit(rows, ["no", "yes", "yes"]), rows)
    >>> found.output_names, found.predict(rows).shape
    (('yes',), (3, 1))
    """
    source = source_of(model)
    codec, example = fitting_codec(source, background)
    return _with_outputs(source, codec, example, output, output_names)


def called(answers: Answers, table: Any, title: str) -> Outputs:
    """What a model answers; whatever goes wrong in it is told as an error about the model."""
    try:
        return answers(table)
    except VoileError:
        raise
    except Exception as error:
        raise failed(title, error) from error


def failed(title: str, error: Exception) -> InvalidInput:
    """A model's own error, with what to do."""
    if type(error).__name__ == "NotFittedError":
        return InvalidInput(f"model: this {title} is not fitted yet; call its `fit` first")
    return InvalidInput(
        f"model: {title} raised {type(error).__name__} for rows like the background: {error}; "
        "pass a background with the columns and types that it was fitted on"
    )


# --- which tables a model takes -------------------------------------------------------------------


def fitting_codec(source: Source, background: Any) -> tuple[TableCodec, Outputs]:
    """The codec with tables that the model takes without complaint, and outputs of some rows."""
    codec = TableCodec.from_table(background, _names(source, background))
    rows = codec.encode(background, "background")[:_TRIED]
    failures: list[Exception] = []
    found: tuple[TableCodec, Outputs] | None = None
    for kind in _kinds(source, background, codec):
        fitting = codec.in_kind(kind)
        try:
            with warnings.catch_warnings(record=True) as seen:
                warnings.simplefilter("always")
                outputs = source.answers(fitting.decode(rows))
        except Exception as error:
            failures.append(error)
            continue
        if not any("feature names" in str(each.message) for each in seen):
            return fitting, outputs
        found = found or (fitting, outputs)
    if found is None:
        raise _none_fits(source, failures)
    return found


def _none_fits(source: Source, failures: Sequence[Exception]) -> VoileError:
    first = failures[0]
    return first if isinstance(first, VoileError) else failed(source.title, first)


def _names(source: Source, background: Any) -> tuple[str, ...] | None:
    """Of the columns, in the model's order, as the background spells them."""
    if source.names is None:
        return None
    if not is_frame(background):
        return source.names
    found = list(columns_of(background))
    spelling = {_spelled(name): name for name in found}
    meant = tuple(spelling.get(_spelled(name), name) for name in source.names)
    check_names(found, meant, what="background")
    return meant


def _spelled(name: str) -> str:
    """Boosters write some signs of a name as underscores."""
    return "".join(sign if sign.isalnum() else "_" for sign in name)


def _kinds(source: Source, background: Any, codec: TableCodec) -> Iterator[TableKind]:
    """Kinds of tables to try, the likeliest first."""
    own, numpy = codec.kind, array_kind(background)
    pandas = own if isinstance(own, PandasTables) else PandasTables()
    if source.takes:
        yield numpy if "NumPy" in source.takes else DictTables()
        return
    if source.names is None and codec.is_numeric and _is_fitted(source):
        yield numpy  # what was fitted on names would know them
    if source.names is not None and isinstance(own, NumpyTables | DictTables):
        yield pandas
    yield own
    yield pandas
    yield numpy


def _is_fitted(source: Source) -> bool:
    """An estimator; functions and what somebody wrote take what they were written for."""
    home = type(source.model).__module__.partition(".")[0]
    return home in ("sklearn", "lightgbm", "xgboost", "catboost")


# --- which output is meant ------------------------------------------------------------------------


def _with_outputs(
    source: Source,
    codec: TableCodec,
    example: Outputs,
    output: Chosen,
    output_names: Sequence[str] | None,
) -> ReadModel:
    answers = source.answers
    if answers.labels is None and _are_probabilities(example) and source.asked != "predict":
        labels = tuple(f"class {place}" for place in range(example.shape[1]))
        answers = replace(answers, scale=Scale.PROBABILITY, labels=labels)
    names = _output_names(answers, example.shape[1], output, output_names)
    places = _places(names, answers, output)
    return ReadModel(source, codec, answers, names, places)


def _are_probabilities(outputs: Outputs) -> bool:
    """Several numbers that add up to 1, as of a classifier."""
    inside = outputs.shape[1] > 1 and outputs.min() >= 0
    return bool(inside and np.abs(outputs.sum(axis=1) - 1).max() < _EVEN)


def _output_names(
    answers: Answers, count: int, output: Chosen, given: Sequence[str] | None
) -> tuple[str, ...]:
    if given is not None:
        names = (given,) if isinstance(given, str) else tuple(given)
        return distinct_names("output_names", names, count)
    if answers.labels is not None:
        return _distinct_labels(answers.labels, count)
    if count == 1:
        return (output,) if isinstance(output, str) and output != ALL else ("prediction",)
    return tuple(f"prediction {place}" for place in range(1, count + 1))


def _distinct_labels(labels: tuple[str, ...], count: int) -> tuple[str, ...]:
    fits = len(labels) == count and len(set(labels)) == count and all(labels)
    return labels if fits else tuple(f"class {place}" for place in range(count))


def _places(names: tuple[str, ...], answers: Answers, output: Chosen) -> tuple[int, ...]:
    """The positive class of two without being asked."""
    if isinstance(output, str) and output == ALL and ALL not in names:
        return tuple(range(len(names)))
    if output is None:
        binary = answers.labels is not None and len(names) == 2
        return (1,) if binary else tuple(range(len(names)))
    wanted = output if isinstance(output, list | tuple) else [output]
    return tuple(dict.fromkeys(_place(names, each) for each in wanted))


def _place(names: tuple[str, ...], wanted: Any) -> int:
    """By its label; a whole number that is no label counts from 0."""
    text = str(wanted.item() if isinstance(wanted, np.generic) else wanted)
    if text in names:
        return names.index(text)
    whole = isinstance(wanted, int | np.integer) and not isinstance(wanted, bool)
    if whole and 0 <= wanted < len(names):
        return int(wanted)
    raise InvalidInput(
        f"output: the model has no output {wanted!r}; expected one of "
        f"{', '.join(map(repr, names[:10]))}{', …' if len(names) > 10 else ''}, or {ALL!r}"
    )
