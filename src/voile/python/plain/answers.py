"""What a model says about rows, as numbers with names, whatever the model is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np

from voile.core.errors import InvalidInput
from voile.core.optional import optional
from voile.models import Outputs
from voile.models.loading import load_model, names_object, open_onnx, refuse_pickle
from voile.models.networks import is_network, wrap_network
from voile.models.wrapping import RAW_ARGUMENTS
from voile.python.plain.onnx_sessions import is_session, onnx_outputs

Table: TypeAlias = Any
"""Rows as the model takes them."""


class Scale(StrEnum):
    """What the numbers mean."""

    PROBABILITY = "probability"
    LOG_ODDS = "log-odds"
    """Of a binary classifier; of several classes the scores before softmax."""
    SCORE = "score"
    """Of a classifier without probabilities: the larger, the more likely the class."""
    PREDICTION = "prediction"


@dataclass(frozen=True, eq=False)
class Answers:
    """One thing that can be asked of a model.

    Args:
        ask: from a table to numbers, (n,) or (n, outputs).
        scale: what the numbers mean.
        labels: of the classes, as people named them; None where there are none or are not known.
    """

    ask: Callable[[Table], Any]
    scale: Scale
    labels: tuple[str, ...] | None = None

    def __call__(self, table: Table) -> Outputs:
        """Shape (n, outputs); a single score of two classes is given for both."""
        found = as_outputs(self.ask(table))
        if self.labels is not None and len(self.labels) == 2 and found.shape[1] == 1:
            other = 1 - found if self.scale is Scale.PROBABILITY else -found
            return np.concatenate([other, found], axis=1)
        return found


@dataclass(frozen=True, eq=False)
class Source:
    """A model as somebody has it.

    Args:
        model: the object itself, without what only forwards to it.
        title: its name for people.
        answers: what it says unless somebody asks otherwise.
        raw: its scores before they become probabilities, if it has them.
        names: of its columns, in order, if it knows them.
        takes: which kinds of table it takes, if only some: "NumPy", "dict of columns".
        asked: the method that somebody handed in, `model.predict_proba`; empty if not one.
    """

    model: Any
    title: str
    answers: Answers
    raw: Answers | None = None
    names: tuple[str, ...] | None = None
    takes: tuple[str, ...] = ()
    asked: str = ""


def source_of(model: Any) -> Source:
    """Find out what it is and what it can be asked.

    >>> from sklearn.linear_model import LogisticRegression
    >>> found = source_of(LogisticRegression().fit([[0.0], [1.0]], ["no", "yes"]))
    >>> found.title, found.answers.labels, found.answers.scale.value, found.raw.scale.value
    ('LogisticRegression', ('no', 'yes'), 'probability', 'log-odds')
    """
    if isinstance(model, str | Path):
        return _from_name(model)
    if is_session(model):
        return _session(model, None)
    if is_network(model):
        return _network(model)
    if _is_booster(model):
        return _booster(model)
    owner = getattr(model, "__self__", None)
    if owner is not None and hasattr(owner, "predict"):
        return _method(owner, model.__name__)
    if hasattr(model, "predict_proba") or hasattr(model, "predict"):
        return _estimator(model)
    if callable(model):
        return _function(model)
    raise InvalidInput(
        f"model: cannot read a {type(model).__name__}; expected a fitted estimator or pipeline, a "
        "booster, a torch module, an ONNX file or session, a function from rows to numbers, or "
        "anything with `predict_proba` or `predict`"
    )


def as_outputs(found: Any) -> Outputs:
    """Numbers of shape (n, outputs) from whatever a model returns."""
    if hasattr(found, "detach"):
        found = found.detach().cpu().numpy()
    if isinstance(found, list | tuple) and found and np.ndim(found[0]) == 2:
        raise InvalidInput(
            f"model: it answers for {len(found)} targets at once; pass a function for one of "
            "them: lambda rows: model.predict_proba(rows)[0]"
        )
    array = np.asarray(found)
    if array.dtype.kind == "O":
        array = _numbers(array)
    if array.dtype.kind not in "fiub":
        raise InvalidInput(
            f"model: it must return numbers, found {array.dtype}; pass a function that returns "
            "probabilities or scores"
        )
    if array.ndim > 2 and array.size == array.shape[0] * array.shape[1]:
        array = array.reshape(array.shape[:2])
    if array.ndim not in (1, 2):
        raise InvalidInput(
            f"model: it must return an array (rows,) or (rows, outputs), found {array.shape}"
        )
    return array.reshape(len(array), -1).astype(np.float64, copy=False)


def _numbers(array: Any) -> Any:
    try:
        return array.astype(np.float64)
    except (TypeError, ValueError):
        return array.astype(str)


# --- estimators -----------------------------------------------------------------------------------

_METHODS: Final[Mapping[str, Scale]] = {
    "predict_proba": Scale.PROBABILITY,
    "decision_function": Scale.SCORE,
    "predict": Scale.PREDICTION,
}


def _estimator(model: Any) -> Source:
    """Probabilities before scores, scores before predictions."""
    inner = refitted(model)
    labels = _labels(inner)
    return Source(
        model=inner,
        title=type(model).__name__,
        answers=_best_answers(model, labels),
        raw=_raw(inner, labels),
        names=_column_names(inner),
    )


def _best_answers(model: Any, labels: tuple[str, ...] | None) -> Answers:
    for method in ("predict_proba", "decision_function"):
        if hasattr(model, method):
            return Answers(getattr(model, method), _METHODS[method], labels)
    if labels is None:
        return Answers(model.predict, Scale.PREDICTION)
    classes = np.asarray(final_of(model).classes_)
    return Answers(
        lambda table: np.asarray(model.predict(table)).reshape(-1, 1) == classes,
        Scale.PROBABILITY,
        labels,
    )


def refitted(model: Any) -> Any:
    """What a search over parameters found best."""
    return getattr(model, "best_estimator_", model)


def final_of(model: Any) -> Any:
    """The last step of a pipeline; else the model."""
    steps = getattr(model, "steps", None)
    return steps[-1][1] if isinstance(steps, list) and steps else model


def _labels(model: Any) -> tuple[str, ...] | None:
    found = getattr(model, "classes_", None)
    if found is None or np.ndim(found) != 1 or not len(found):
        return None
    return tuple(str(each) for each in np.asarray(found).tolist())


def _raw(model: Any, labels: tuple[str, ...] | None) -> Answers | None:
    """Log-odds and scores, where a classifier has them beside its probabilities."""
    if labels is None or not hasattr(model, "predict_proba"):
        return None
    home = type(final_of(model)).__module__.partition(".")[0]
    more = RAW_ARGUMENTS.get(home)
    if more is not None:
        return Answers(lambda table: model.predict(table, **more), Scale.LOG_ODDS, labels)
    if hasattr(model, "decision_function"):
        return Answers(model.decision_function, Scale.LOG_ODDS, labels)
    return None


def _column_names(model: Any) -> tuple[str, ...] | None:
    """As it was fitted; numbers are nobody's names."""
    found = getattr(model, "feature_names_in_", None)
    if found is None:
        found = getattr(model, "feature_names_", None)
    names = () if found is None else tuple(str(name) for name in found)
    numbered = all(name.isdigit() for name in names)
    return None if numbered or isinstance(found, Mapping) else names


def _method(owner: Any, name: str) -> Source:
    """`model.predict_proba`: as the model, but this is what is asked."""
    whole = _estimator(owner)
    scale = _METHODS.get(name, Scale.SCORE)
    labels = None if name == "predict" else whole.answers.labels
    asked = Answers(getattr(owner, name), scale, labels)
    return Source(whole.model, whole.title, asked, None, whole.names, asked=name)


# --- boosters, networks, functions ----------------------------------------------------------------


def _is_booster(model: Any) -> bool:
    home = type(model).__module__.partition(".")[0]
    return home in ("xgboost", "lightgbm") and type(model).__name__ == "Booster"


def _booster(model: Any) -> Source:
    """Native boosters know the names of their columns, and not of their classes."""
    if type(model).__module__.startswith("xgboost"):
        names = tuple(model.feature_names) if model.feature_names else None
        matrix = optional("xgboost", extra="explain").DMatrix

        def ask(table: Table, **more: Any) -> Any:
            data = matrix(table, feature_names=names, enable_categorical=True)
            return model.predict(data, **more)

        binary = '"binary:' in model.save_config()
        raw = Answers(lambda table: ask(table, output_margin=True), Scale.LOG_ODDS)
    else:
        ask, names = model.predict, tuple(model.feature_name())
        names = None if all(name.startswith("Column_") for name in names) else names
        binary = "objective=binary" in model.model_to_string(num_iteration=1)
        raw = Answers(lambda table: ask(table, raw_score=True), Scale.LOG_ODDS)
    title = f"{type(model).__module__.partition('.')[0]} booster"
    if not binary:
        return Source(model, title, Answers(ask, Scale.PREDICTION), raw, names)
    labels = ("0", "1")
    return Source(
        model,
        title,
        Answers(ask, Scale.PROBABILITY, labels),
        Answers(raw.ask, Scale.LOG_ODDS, labels),
        names,
    )


def _network(model: Any) -> Source:
    forward = wrap_network(model).forward
    answers = Answers(lambda table: forward(np.asarray(table)), Scale.PREDICTION)
    return Source(model, type(model).__name__, answers, takes=("NumPy",))


def _function(model: Any) -> Source:
    title = getattr(model, "__name__", type(model).__name__)
    title = "function" if title == "<lambda>" else title
    return Source(model, title, Answers(model, Scale.PREDICTION))


def _from_name(name: str | Path) -> Source:
    """An ONNX file, or an object in a module."""
    if names_object(str(name)):
        return source_of(load_model(str(name)))
    path = Path(name)
    if not path.exists():
        raise InvalidInput(
            f"model: there is no file {str(name)!r}; expected the path of an ONNX file, "
            "package.module:object, or the model itself"
        )
    refuse_pickle(path)
    session, content = open_onnx(path)
    return _session(session, content, path.name)


def _session(session: Any, content: bytes | None, title: str = "ONNX session") -> Source:
    outputs = onnx_outputs(session, content)
    scale = Scale.PROBABILITY if outputs.labels is not None else Scale.PREDICTION
    answers = Answers(outputs, scale, outputs.labels)
    takes = "NumPy" if outputs.is_matrix else "dict of columns"
    return Source(session, title, answers, names=outputs.names, takes=(takes,))
