"""`PrivateClassifier`, `PrivateRegressor`: train privately once, then predict and explain for ever.

Thin faces, with the manners of scikit-learn, on the handlers of `voile train`, `voile explain` and
`voile report`. A fit is charged to a `Budget`; without one its guarantee is computed by the same
walk, in records that nobody keeps.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from os import PathLike
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final, Self

import numpy as np
from numpy.typing import NDArray

from voile.app.calls import Context, handle
from voile.app.commands.explain import Explain
from voile.app.commands.federate import WriteReport
from voile.app.commands.train import Train
from voile.app.model_copy import ModelCopy
from voile.app.trained_folder import GUARANTEES, STATISTICS, TrainedFolder
from voile.core.errors import InvalidInput, Refused
from voile.core.guarantee import Guarantee
from voile.core.optional import optional
from voile.core.schema import Schema
from voile.python.declaring import (
    NAME,
    Bounds,
    class_labels,
    declared_schema,
    read_schema,
    with_classes,
    with_number,
)
from voile.python.passing import ACCOUNT, passing_budget, passing_context
from voile.python.training_tables import (
    Columns,
    asked_columns,
    check_kinds,
    display_rows,
    fitted_columns,
    label_column,
    names_of,
)
from voile.python.view import ExplanationView

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from voile.app.explain_rows import ExplainResult, PreviewResult
    from voile.app.train import TrainedModelResult
    from voile.models.additive import AdditiveModel
    from voile.python.budget import Budget

optional("sklearn.base", extra="explain")
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin  # noqa: E402
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
    """A fit that cost something, or nothing, where that may surprise.

    >>> issubclass(FitWarning, UserWarning)
    True
    """


class NotFitted(InvalidInput, NotFittedError):
    """An estimator was asked before it was fitted.

    >>> PrivateClassifier().predict([[1.0]])
    Traceback (most recent call last):
    voile.python.estimators.NotFitted: this PrivateClassifier is not fitted yet: call fit(X, y) ...
    """


@dataclass(eq=False)
class _Family:
    """An estimator and its clones: what was said to one need not be said to another."""

    said: set[str] = field(default_factory=set)

    def warn(self, text: str) -> None:
        if text not in self.said:
            self.said.add(text)
            warnings.warn(text, FitWarning, stacklevel=4)


class _PrivateEstimator(BaseEstimator):  # type: ignore[misc]
    """What both estimators share."""

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
        table, schema, classes = self._table(X, y)
        with self._records() as (context, account):
            command = self._command(table, schema, account)
            with TemporaryDirectory(prefix="voile-fit-") as home:
                result = handle(Train.read({**command, "folder": Path(home) / "model"}), context)
                self._keep(ModelCopy.from_folder(result.trained.folder))
            self._budget, self.replayed_ = self.budget, not result.new
            self._tell(result)
        self._note(tuple(table)[:-1], names_of(X), classes)
        return self

    def preview(self, X: Any) -> PreviewResult:  # noqa: N803
        """What `fit` would cost and be like; nothing is charged, and no label is needed.

        Args:
            X: the table to train on; its columns and its length are all that is looked at.
        """
        rows = len(next(iter(fitted_columns(X, self._schema_names).values())))
        table, schema, _ = self._table(X, [None] * rows)
        with self._records() as (context, account), TemporaryDirectory() as home:
            command = self._command(table, schema, account)
            folder = Path(home) / "model"
            found: PreviewResult = handle(
                Train.read({**command, "folder": folder, "preview": True}), context
            )
            return found

    def _table(
        self,
        X: Any,  # noqa: N803
        y: Any,
    ) -> tuple[Columns, Schema, NDArray[Any] | None]:
        """Columns, the label last; what is public about them; the classes, if there are any."""
        columns = fitted_columns(X, self._schema_names)
        labels = label_column(y, len(next(iter(columns.values()))), type(self).__name__)
        plain = declared_schema(list(columns), self.schema, self.bounds, self.categories)
        check_kinds(columns, plain)
        schema, classes = self._declared(plain, self._label_name(y))
        assert schema.label is not None
        is_coded = classes is not None and plain.label is None
        coded = class_labels(labels, classes) if is_coded else labels
        return {**columns, schema.label.name: coded}, schema, classes

    @property
    def _schema_names(self) -> tuple[str, ...] | None:
        if self.schema is None:
            return None
        return read_schema(self.schema).feature_names

    def _label_name(self, y: Any) -> str:
        """As stated, or as a Series calls it."""
        name = self.label if self.label is not None else getattr(y, "name", None)
        return name if isinstance(name, str) and name else NAME

    def _command(self, table: Columns, schema: Schema, account: str) -> dict[str, Any]:
        held_out = None if self.held_out is None else self._table(*self.held_out)[0]
        return {
            "rows": table,
            "schema": schema,
            "model": self.model,
            "account": account,
            "epsilon": self._stated("epsilon"),
            "delta": self._delta,
            "held_out": held_out,
            "redraw": self.redraw or self._is_clone,
        }

    @contextmanager
    def _records(self) -> Iterator[tuple[Context, str]]:
        """Of the budget, or some that nobody keeps."""
        if self.budget is not None:
            yield self.budget.context(ask=self._refuse), self.budget.account
            return
        self._family.warn(_UNCHARGED)
        with passing_budget(self._stated("epsilon"), self._delta) as context:
            yield replace(context, ask=self._family.warn, say=self._family.warn), ACCOUNT

    def _refuse(self, question: str) -> None:
        """Nobody can be asked, and a budget is easily wasted."""
        if not self.sure:
            text = question.removesuffix(_ASKED)
            raise Refused(f"{text} To train all the same, pass sure=True; nothing was charged")

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
            rows = f"{result.trained.rows:,} rows of {self.guarantee_.protected.dataset!r}"
            made = result.made_from.partition(". ")[0]
            self._family.said.discard(made)
            self._family.warn(
                f"nothing was charged and these rows were not looked at: {rows} were asked about "
                f"before, in the same words. The model was {made}. For new rows open a budget for "
                "the new version of the data, or pass redraw=True"
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

    def _keep(self, made: ModelCopy) -> None:
        trained = made.trained
        self._copy = made
        self.guarantee_: Guarantee = trained.guarantee
        self.quality_ = dict(trained.quality)
        self.charges_: tuple[str, ...] = trained.charges
        self.schema_ = trained.schema

    def _note(
        self, names: tuple[str, ...], called: tuple[str, ...] | None, classes: NDArray[Any] | None
    ) -> None:
        """Columns in their order, what the table called them, and the classes."""
        self._names, self.n_features_in_ = names, len(names)
        self.__dict__.pop("feature_names_in_", None)
        if called is not None:
            self.feature_names_in_ = np.asarray(called, dtype=object)
        if classes is not None:
            self.classes_, self._order = np.unique(classes, return_index=True)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_copy")

    @property
    def _trained(self) -> TrainedFolder:
        self._check_fitted()
        return self._copy.trained

    def _check_fitted(self) -> None:
        if not hasattr(self, "_copy"):
            raise NotFitted(
                f"this {type(self).__name__} is not fitted yet: call fit(X, y) first, or load a "
                "model that was saved"
            )

    def _said(self, X: Any) -> NDArray[np.float64]:  # noqa: N803
        """What the model says, (n, outputs), in the order of the schema."""
        trained = self._trained
        columns = asked_columns(X, self._names, type(self).__name__)
        check_kinds(columns, self.schema_)
        return np.asarray(trained.predict(columns), dtype=np.float64)

    def explain(self, X: Any) -> ExplanationView:  # noqa: N803
        """Why the model says what it says about these rows; free, however often.

        By statistics: exact Shapley values of the log-odds (of the number) in closed form, over the
        background that was released with the model, with errors for the noise in training. By a
        network: Shapley values of its outputs over public rows. The guarantee is that of training.

        Args:
            X: rows to explain; public, or rows whose owner sees the explanation.
        """
        self._check_fitted()
        columns = asked_columns(X, self._names, type(self).__name__)
        check_kinds(columns, self.schema_)
        folder, asks = self._copy.folder, {"model": str(self._copy.folder), "data": columns}
        if self._budget is None:
            asks["model_origin"] = str(folder / GUARANTEES)
            found: ExplainResult = handle(Explain.read(asks), passing_context())
            return ExplanationView(
                found.explained.explanation, display=display_rows(columns), method=self._method
            )
        service = self._budget.service()
        found = handle(Explain.read(asks), self._budget.context())
        return ExplanationView(
            found.explained.explanation,
            display=display_rows(columns),
            released=found.explained,
            receipt=lambda: service.receipts(found.explained)[0],
            method=self._method,
        )

    @property
    def _method(self) -> str:
        return "closed form" if self._trained.additive is not None else "exact"

    def curves(self) -> dict[str, Any]:
        """The curve of each feature as plain values: bins, scores, their errors, shares of rows."""
        return self._additive.description()

    def plot(self) -> Figure:
        """Draw the curve of each feature, the one that matters most first."""
        from voile import plots

        return plots.curves(self._additive)

    @property
    def _additive(self) -> AdditiveModel:
        found = self._trained.additive
        if found is None:
            raise Refused(
                "a network has no curves: see explain(X).plot(), or fit with model='statistics'"
            )
        return found

    def report(self, path: str | PathLike[str], *, overwrite: bool = False) -> Path:
        """Write one page: curves, how good the model is, what it promises and what it cost."""
        self._check_fitted()
        context = Context() if self._budget is None else self._budget.context()
        stated = {"artefact": self._copy.folder, "output": Path(path), "overwrite": overwrite}
        written: Path = handle(WriteReport.read(stated), context).path
        return written

    def save(self, folder: str | PathLike[str], *, overwrite: bool = False) -> Path:
        """Write the model as `voile train` does; all of it may be shown.

        `voile explain`, `voile report` and a workspace open the folder.
        """
        self._check_fitted()
        return self._copy.save(Path(folder), overwrite=overwrite)

    @classmethod
    def load(cls, folder: str | PathLike[str]) -> Self:
        """A fitted estimator from a folder of `save` or `voile train`.

        The folder is not signed: load what you trust. Classes are those of its schema.
        """
        made = ModelCopy.from_folder(Path(folder))
        trained = made.trained
        promise = trained.guarantee
        terms = {"epsilon": promise.epsilon, "delta": promise.delta, "model": trained.kind}
        found = cls(trained.schema, **terms)
        _, classes = found._declared(trained.schema, NAME)
        found._keep(made)
        found._budget, found.replayed_ = None, True
        found._note(trained.schema.feature_names, trained.schema.feature_names, classes)
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

    # --- what each of them decides --------------------------------------------------------------

    schema: Any
    label: str | None
    budget: Budget | None
    bounds: Bounds
    categories: Any
    delta: float | None
    model: str
    held_out: Any
    sure: bool
    redraw: bool

    def _declared(self, schema: Schema, name: str) -> tuple[Schema, NDArray[Any] | None]:
        """The schema with its label; the classes in its order, if there are any."""
        raise NotImplementedError


class PrivateClassifier(ClassifierMixin, _PrivateEstimator):  # type: ignore[misc]
    """A classifier that is trained with differential privacy, and explained at no cost.

    Assumes that schema, classes and the number of rows are public, and that steps before it in a
    pipeline learn nothing from protected rows. Promises each row (epsilon, delta), as `guarantee_`
    says in full; predictions and explanations take nothing more.

    Args:
        schema: what values the columns may take: a `Schema`, its declaration, or a file.
        classes: all classes, public; not needed if the schema has a label. The last of two is the
            one that is explained.
        epsilon, delta: of one fit; it cannot spend without. The default delta is the budget's.
        budget: what pays. Without one nobody keeps count, and a warning says so.
        model: `statistics`, an additive model with curves; or `network`, a perceptron by DP-SGD.
        bounds: instead of a schema: by column (lower, upper), or one pair for all columns.
        categories: instead of a schema: by column the values that it may take.
        label: what is predicted is called so. Default: the schema's word, or that of a Series.
        held_out: public rows with labels, as (X, y), to measure the model on (`quality_`).
        sure: train even if the rows are too few for a useful model.
        redraw: pay for a new model, even if this question was answered before.

    >>> import numpy as np
    >>> draw = np.random.default_rng(0)
    >>> X = draw.uniform(size=(2000, 2))
    >>> y = np.where(X[:, 0] + 0.2 * draw.normal(size=2000) > 0.5, "yes", "no")
    >>> clf = PrivateClassifier(bounds=(0, 1), classes=["no", "yes"], epsilon=2, delta=1e-6)
    >>> with warnings.catch_warnings(action="ignore"):
    ...     clf = clf.fit(X, y)
    >>> clf.predict([[0.1, 0.5], [0.9, 0.5]]).tolist(), clf.explain(X[:3]).shape
    (['no', 'yes'], (3, 2))
    >>> round(clf.guarantee_.epsilon, 6)
    2.0
    """

    def __init__(
        self,
        schema: Any = None,
        *,
        classes: Any = None,
        epsilon: float | None = None,
        delta: float | None = None,
        budget: Budget | None = None,
        model: str = STATISTICS,
        bounds: Bounds = None,
        categories: Any = None,
        label: str | None = None,
        held_out: Any = None,
        sure: bool = False,
        redraw: bool = False,
    ) -> None:
        self.schema = schema
        self.classes = classes
        self.epsilon = epsilon
        self.delta = delta
        self.budget = budget
        self.model = model
        self.bounds = bounds
        self.categories = categories
        self.label = label
        self.held_out = held_out
        self.sure = sure
        self.redraw = redraw

    def predict_proba(self, X: Any) -> NDArray[np.float64]:  # noqa: N803
        """Probabilities, (n, classes), in the order of `classes_`."""
        said = self._said(X)
        return said[:, self._order]

    def predict(self, X: Any) -> NDArray[Any]:  # noqa: N803
        """The likeliest class of each row."""
        said = self.predict_proba(X)
        return self.classes_[said.argmax(axis=1)]

    def _declared(self, schema: Schema, name: str) -> tuple[Schema, NDArray[Any] | None]:
        return with_classes(schema, self.classes, name)


class PrivateRegressor(RegressorMixin, _PrivateEstimator):  # type: ignore[misc]
    """A regressor that is trained with differential privacy, and explained at no cost.

    Assumes and promises what `PrivateClassifier` does.

    Args:
        schema, epsilon, delta, budget, model, bounds, categories, label, held_out, sure, redraw:
            see `PrivateClassifier`.
        target_range: (lower, upper) of the target, public; not needed if the schema has a label.
            Targets outside count as the nearest bound.

    >>> import numpy as np
    >>> draw = np.random.default_rng(0)
    >>> X = draw.uniform(size=(2000, 2))
    >>> y = 3 * X[:, 0] + 0.1 * draw.normal(size=2000)
    >>> reg = PrivateRegressor(bounds=(0, 1), target_range=(-1, 4), epsilon=2, delta=1e-6)
    >>> with warnings.catch_warnings(action="ignore"):
    ...     reg = reg.fit(X, y)
    >>> low, high = reg.predict([[0.1, 0.5], [0.9, 0.5]])
    >>> low < 1 < 2 < high
    True
    """

    def __init__(
        self,
        schema: Any = None,
        *,
        target_range: Any = None,
        epsilon: float | None = None,
        delta: float | None = None,
        budget: Budget | None = None,
        model: str = STATISTICS,
        bounds: Bounds = None,
        categories: Any = None,
        label: str | None = None,
        held_out: Any = None,
        sure: bool = False,
        redraw: bool = False,
    ) -> None:
        self.schema = schema
        self.target_range = target_range
        self.epsilon = epsilon
        self.delta = delta
        self.budget = budget
        self.model = model
        self.bounds = bounds
        self.categories = categories
        self.label = label
        self.held_out = held_out
        self.sure = sure
        self.redraw = redraw

    def predict(self, X: Any) -> NDArray[np.float64]:  # noqa: N803
        """The number that is expected for each row, within the range of the target."""
        return self._said(X)[:, 0]

    def _declared(self, schema: Schema, name: str) -> tuple[Schema, NDArray[Any] | None]:
        return with_number(schema, self.target_range, name), None
