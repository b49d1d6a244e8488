"""What private estimators share: a fit is a command, what was learned a folder held in memory.

A fit is charged to a `Budget`; without one its guarantee is computed by the same walk, in records
that nobody keeps. The ledger knows a question by public facts and never by the rows, so an equal
question is answered again, at no cost. A clone asks a question of its own: in a cross-validation
the rows differ from fold to fold, and the model of one fold must not stand for that of another.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass, field, replace
from os import PathLike
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final, Self

import numpy as np
from numpy.typing import NDArray

from voile.app.calls import Context, handle
from voile.app.commands.train import Train
from voile.app.model_copy import ModelCopy
from voile.app.trained_folder import STATISTICS
from voile.core.errors import InvalidInput, Refused
from voile.core.guarantee import Guarantee
from voile.core.optional import optional
from voile.core.schema import Schema
from voile.datasets.frames import share_rows
from voile.python.progress import check_progress, late_bar
from voile.python.protected.terms import check_budget, check_figures
from voile.python.training.declaring import NAME, Bounds, class_labels, declared_schema, read_schema
from voile.python.training.fitted import FittedModel
from voile.python.training.passing import ACCOUNT, passing_budget
from voile.python.training.tables import (
    Columns,
    check_kinds,
    fitted_columns,
    label_column,
    names_of,
)
from voile.python.view import ExplanationView

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from voile.app.train import TrainedModelResult
    from voile.python.budget import Budget
    from voile.python.progress import Progress
    from voile.release import Preview

optional("sklearn.base", extra="explain")
from sklearn.base import BaseEstimator  # noqa: E402
from sklearn.exceptions import NotFittedError  # noqa: E402

_ASKED: Final = " Train all the same?"
_CLONED: Final = (
    "a clone pays for its own fit, so each fold of a cross-validation is a release of its own. "
    "Scores on protected rows are not private: publish none of them"
)
_UNCHARGED: Final = (
    "this fit charges no budget: its guarantee holds only if nothing else is released about these "
    "rows. Pass budget=voile.Budget(...) to keep count"
)


class FitWarning(UserWarning):
    """A fit that cost something, or nothing, where that may surprise; or a model of no use.

    >>> issubclass(FitWarning, UserWarning)
    True
    """


class NotFitted(InvalidInput, NotFittedError):  # type: ignore[misc]
    """An estimator was asked before it was fitted.

    >>> from voile import PrivateClassifier
    >>> try:
    ...     PrivateClassifier().predict([[1.0]])
    ... except NotFitted as error:
    ...     print(str(error).partition(":")[0])
    this PrivateClassifier is not fitted yet
    """


@dataclass(eq=False)
class _Family:
    """An estimator and its clones: what was said to one need not be said to another."""

    said: set[str] = field(default_factory=set)

    def warn(self, text: str) -> None:
        if text not in self.said:
            self.said.add(text)
            warnings.warn(text, FitWarning, stacklevel=_level_of_caller())


def _level_of_caller() -> int:
    """How far up the first line is that is not ours, for a warning that points there."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and _is_ours(frame.f_globals.get("__name__", "")):
        frame, level = frame.f_back, level + 1
    return level


def _is_ours(module: str) -> bool:
    return module.partition(".")[0] in ("voile", "contextlib")


@dataclass(frozen=True, eq=False)
class _Task:
    """What a fit is asked to learn.

    Args:
        given: the table as it was handed in.
        table: columns, the label last.
        schema: what is public about them.
        classes: in the order of the schema; None for a number.
    """

    given: Any = field(repr=False)
    table: Columns = field(repr=False)
    schema: Schema
    classes: NDArray[Any] | None


@dataclass(eq=False, repr=False)
class PrivateEstimator(BaseEstimator):  # type: ignore[misc]
    """A private classifier or regressor, before and after its fit.

    Args: see `voile.PrivateClassifier`.
    """

    schema: Any = None
    _: KW_ONLY
    epsilon: float | None = None
    delta: float | None = None
    budget: Budget | None = None
    model: str = STATISTICS
    bounds: Bounds = None
    categories: Any = None
    label: str | None = None
    held_out: Any = None
    sure: bool = False
    redraw: bool = False
    progress: Progress = None

    def _declared(self, schema: Schema, name: str) -> tuple[Schema, NDArray[Any] | None]:
        """The schema with its label; the classes in its order, if there are any."""
        raise NotImplementedError

    # --- fitting --------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: N803
        """Train on protected rows: charged, on record, in one step.

        The same question to the same budget is answered again, at no cost: same schema, number of
        rows, epsilon, delta and model. The rows themselves are not compared, so a warning says so.
        A clone, as in a cross-validation, asks anew and pays.

        Args:
            X: a table of pandas, polars or pyarrow, a dict of columns, or an array.
            y: labels, one for each row. One that is no class or number makes a null record.
        """
        task = self._task(X, y)
        with self._records() as (context, account), late_bar("training", self.progress) as steps:
            stated, context = self._stated_terms(task, account), replace(context, steps=steps)
            with TemporaryDirectory(prefix="voile-fit-") as home:
                result = handle(Train.read({**stated, "folder": Path(home) / "model"}), context)
                made = ModelCopy.from_folder(result.trained.folder)
            self._tell(result)
        names = tuple(task.table)[:-1]
        self._note(FittedModel(made, names, self.budget), task.classes, names_of(X))
        self.replayed_ = not result.new
        return self

    def preview(self, X: Any) -> Preview:  # noqa: N803
        """What `fit` would cost and be like; nothing is charged, and no label is needed.

        Args:
            X: the table to train on; its columns and its length are all that is looked at.
        """
        rows = len(next(iter(fitted_columns(X, self._schema_names).values())))
        task = self._task(X, [None] * rows)
        with self._records() as (context, account), TemporaryDirectory() as home:
            stated = self._stated_terms(task, account)
            command = {**stated, "folder": Path(home) / "model", "preview": True}
            found: Preview = handle(Train.read(command), context).preview
            return found

    def _task(self, X: Any, y: Any, name: str | None = None) -> _Task:  # noqa: N803
        columns = fitted_columns(X, self._schema_names)
        labels = label_column(y, len(next(iter(columns.values()))), type(self).__name__)
        plain = declared_schema(list(columns), self.schema, self.bounds, self.categories)
        check_kinds(X, columns, plain)
        name = self._label_name(y, tuple(columns)) if name is None else name
        schema, classes = self._declared(plain, name)
        assert schema.label is not None
        if classes is not None and plain.label is None:
            labels = class_labels(labels, classes)
        return _Task(X, {**columns, schema.label.name: labels}, schema, classes)

    @property
    def _schema_names(self) -> tuple[str, ...] | None:
        return None if self.schema is None else read_schema(self.schema).feature_names

    def _label_name(self, y: Any, features: Sequence[str]) -> str:
        """As stated, or as a Series calls it."""
        if self.label is not None:
            return self.label
        name = getattr(y, "name", None)
        return name if isinstance(name, str) and name and name not in features else NAME

    def _stated_terms(self, task: _Task, account: str) -> dict[str, Any]:
        """Fields of the command, without the folder."""
        return {
            "rows": task.table,
            "schema": task.schema,
            "model": self.model,
            "account": account,
            "epsilon": self._stated("epsilon"),
            "delta": self._delta,
            "held_out": None if self.held_out is None else self._measured(task),
            "redraw": self.redraw or self._is_clone,
        }

    def _measured(self, task: _Task) -> Columns:
        """Public rows with their labels; refused where they are those that are protected."""
        given, labels = _two(self.held_out)
        assert task.schema.label is not None
        found = self._task(given, labels, task.schema.label.name)
        if given is task.given or share_rows(found.table, task.table):
            raise Refused(
                "held_out: these are protected rows, and figures measured on them would be "
                "released without a charge; pass public rows"
            )
        return found.table

    @contextmanager
    def _records(self) -> Iterator[tuple[Context, str]]:
        """Of the budget, or some that nobody keeps."""
        check_progress(self.progress)
        check_figures(epsilon=self.epsilon, delta=self.delta)
        if self.budget is not None:
            check_budget(self.budget)
            yield self.budget.context(ask=self._refuse), self.budget.account
            return
        self._family.warn(_UNCHARGED)
        with passing_budget(self._stated("epsilon"), self._delta) as context:
            yield replace(context, ask=self._warn_asked), ACCOUNT

    def _refuse(self, question: str) -> None:
        """Nobody can be asked, and a budget is easily wasted."""
        if not self.sure:
            text = question.removesuffix(_ASKED)
            raise Refused(f"{text} To train all the same, pass sure=True; nothing was charged")

    def _warn_asked(self, question: str) -> None:
        """Where nothing is charged, nothing can be wasted."""
        self._family.warn(question.removesuffix(_ASKED))

    @property
    def _delta(self) -> float:
        if self.delta is None and self.budget is not None:
            return float(self.budget.delta)
        return self._stated("delta")

    def _stated(self, name: str) -> float:
        """Spending is explicit."""
        value = getattr(self, name)
        if value is None:
            raise InvalidInput(
                f"state {name}= before you fit: {type(self).__name__}(..., epsilon=1, delta=1e-6)"
            )
        found: float = value
        return found

    def _tell(self, result: TrainedModelResult) -> None:
        if self._is_clone:
            self._family.warn(_CLONED)
        if result.made_from:
            trained, made = result.trained, result.made_from.partition(". ")[0]
            warnings.warn(
                f"nothing was charged, and these rows were not looked at: {trained.rows:,} rows of "
                f"{trained.guarantee.protected.dataset!r} were asked about before, on the same "
                f"terms. The model was {made}. For other rows open a budget for that version of "
                "the data, or pass redraw=True",
                FitWarning,
                stacklevel=3,
            )
        for alarm in result.trained.alarms():
            self._family.warn(alarm)

    # --- clones ---------------------------------------------------------------------------------

    def __sklearn_clone__(self) -> Self:
        """A clone asks a question of its own: fold by fold the rows are others."""
        made: Self = super().__sklearn_clone__()
        made.__dict__["_cloned"] = self._family
        return made

    @property
    def _is_clone(self) -> bool:
        return "_cloned" in self.__dict__

    @property
    def _family(self) -> _Family:
        own: dict[str, Any] = self.__dict__
        found: _Family = own.get("_cloned") or own.setdefault("_own_family", _Family())
        return found

    # --- what was learned -----------------------------------------------------------------------

    def _note(
        self, fitted: FittedModel, classes: NDArray[Any] | None, called: tuple[str, ...] | None
    ) -> None:
        """In the words of scikit-learn; `called` is what the table called its columns."""
        trained = fitted.trained
        self._fitted = fitted
        self.guarantee_: Guarantee = trained.guarantee
        self.quality_ = dict(trained.quality)
        self.charges_: tuple[str, ...] = trained.charges
        self.schema_ = trained.schema
        self.n_features_in_ = len(fitted.names)
        self.__dict__.pop("feature_names_in_", None)
        if called is not None:
            self.feature_names_in_ = np.asarray(called, dtype=object)
        if classes is not None:
            self.classes_, self._order = np.unique(classes, return_index=True)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_fitted")

    @property
    def _model(self) -> FittedModel:
        if not hasattr(self, "_fitted"):
            raise NotFitted(
                f"this {type(self).__name__} is not fitted yet: call fit(X, y) first, or load a "
                "model that was saved"
            )
        return self._fitted

    def _said(self, X: Any) -> NDArray[np.float64]:  # noqa: N803
        return self._model.said(X, type(self).__name__)

    def explain(self, X: Any) -> ExplanationView:  # noqa: N803
        """Why the model says what it says about these rows; free, however often.

        By statistics: exact Shapley values of the log-odds (of the number) in closed form, over the
        background that was released with the model, with errors for the noise in training. By a
        network: Shapley values of its outputs over public rows. The guarantee is that of training.

        Args:
            X: rows to explain; public, or rows whose owner sees the explanation.
        """
        return self._model.explain(X, type(self).__name__)

    def curves(self) -> dict[str, Any]:
        """The curve of each feature as plain values: bins, scores, their errors, shares of rows."""
        return self._model.additive.description()

    def plot(self) -> Figure:
        """Draw the curve of each feature, the one that matters most first."""
        from voile import plots

        return plots.curves(self._model.additive)

    def report(self, path: str | PathLike[str], *, overwrite: bool = False) -> Path:
        """Write one page: curves, how good the model is, what it promises and what it cost."""
        return self._model.report(Path(path), overwrite=overwrite)

    def save(self, folder: str | PathLike[str], *, overwrite: bool = False) -> Path:
        """Write the model as `voile train` does; all of it may be shown.

        `voile explain`, `voile report` and a workspace open the folder.
        """
        return self._model.copy.save(Path(folder), overwrite=overwrite)

    @classmethod
    def load(cls, folder: str | PathLike[str]) -> Self:
        """A fitted estimator from a folder of `save` or `voile train`.

        The folder is not signed: load what you trust. Classes are those of its schema.
        """
        made = ModelCopy.from_folder(Path(folder))
        trained, names = made.trained, made.trained.schema.feature_names
        promise = trained.guarantee
        terms: dict[str, Any] = {"epsilon": promise.epsilon, "delta": promise.delta}
        terms["model"] = trained.kind
        found = cls(trained.schema, **terms)
        _, classes = found._declared(trained.schema, NAME)
        found._note(FittedModel(made, names, None), classes, names)
        found.replayed_ = True
        return found

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.non_deterministic = True
        tags.input_tags.allow_nan = True
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        tags.input_tags.sparse = True
        tags.target_tags.required = True
        return tags


def _two(held_out: Any) -> tuple[Any, Any]:
    if not isinstance(held_out, tuple | list) or len(held_out) != 2:
        raise InvalidInput("held_out: expected public rows with their labels, as (X, y)")
    return held_out[0], held_out[1]
