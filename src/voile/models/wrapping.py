"""`wrap`: one adapter around whatever predicts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from voile.core.digest_names import digest_name
from voile.core.errors import InvalidInput
from voile.core.optional import optional
from voile.core.schema import Categories, ColumnTable, Problem, Schema
from voile.core.schema.cells import raw_column
from voile.core.schema.schema import draw_rows
from voile.models.digests import digest_of
from voile.models.inspection import estimators
from voile.models.loading import is_session, load_file, wrap_session
from voile.models.networks import is_network, wrap_network
from voile.models.outputs import DeclaredOutputs, Simplex, Unbounded
from voile.models.wrapped import Backward, Forward, InspectedForward, Rows, WrappedModel

# --------------------------------------------------------------------------------------------------
# scikit-learn estimators, and gradient boosting from XGBoost and LightGBM if it is installed.


def is_estimator(source: Any) -> bool:
    """Anything with scikit-learn's manners: XGBClassifier and LGBMRegressor have them too."""
    return hasattr(source, "get_params") and hasattr(source, "predict")


def is_booster(source: Any) -> bool:
    """The native models of XGBoost and LightGBM."""
    home = type(source).__module__.partition(".")[0]
    return home in ("xgboost", "lightgbm") and type(source).__name__ == "Booster"


@digest_name("voile.models.estimators.OfEstimator")
@dataclass(frozen=True, eq=False)
class EstimatorForward(InspectedForward):
    """What an estimator says.

    Args:
        source: the estimator.
        method: which of its methods is asked.
        columns: what was fitted on a DataFrame gets a DataFrame: a pipeline may choose by name.
        schema: what was fitted on raw values gets raw values.
        spelling: by column, how the model itself writes a category of the schema.
    """

    source: Any
    method: str
    columns: tuple[str, ...] | None
    schema: Schema | None = None
    spelling: Mapping[str, Mapping[Any, Any]] = field(default_factory=dict)

    def __call__(self, rows: Rows) -> Any:
        predict = getattr(self.source, self.method)
        if self.columns is None:
            return predict(rows)
        frame = optional("pandas", extra="explain").DataFrame
        names = list(self.columns)
        if self.schema is not None:
            table = self.schema.table(rows)
            for name, own in self.spelling.items():
                texts = [own.get(text, text) for text in table[name].tolist()]
                table[name] = np.array(texts, dtype=object)
            return np.asarray(predict(frame(table)[names]))
        return np.asarray(predict(frame(rows, columns=names, copy=False)))

    def steady(self) -> Forward | None:
        return self if estimators.is_row_wise(self.source, self.method) else None


def own_categories(source: Any) -> dict[str, list[Any]]:
    """By column, the categories that fitted encoders know."""
    return dict(_encoded(source, None))


def own_spelling(source: Any, schema: Schema) -> dict[str, dict[Any, Any]]:
    """How fitted encoders write categories of the schema.

    A schema holds no blanks at the ends of a text, and may write as text what the model knows as a
    number or a truth value.
    """
    found: dict[str, dict[Any, Any]] = {}
    for name, known in _encoded(source, None):
        texts = [text for text in known if isinstance(text, str)]
        own = {text.strip(): text for text in texts}
        if len(own) < len(texts):
            raise InvalidInput(
                f"the model knows categories of {name!r} that differ in blanks alone, which a "
                "schema reads as one; fit it on values without blanks at their ends"
            )
        changed: dict[Any, Any] = {short: text for short, text in own.items() if short != text}
        if name in schema.feature_names:
            changed |= _written_otherwise(schema, name, known)
            if changed:
                found.setdefault(name, {}).update(changed)
    return found


def _written_otherwise(schema: Schema, name: str, known: Sequence[Any]) -> dict[Any, Any]:
    """Categories of a schema that the model knows by a value of another type."""
    (feature,) = (each for each in schema.features if each.name == name)
    if not isinstance(feature.domain, Categories):
        return {}
    own = {_as_text(value): value for value in known if not isinstance(value, str)}
    listed = [value for value in feature.domain.values if isinstance(value, str)]
    return {text: own[_as_text(text)] for text in listed if _as_text(text) in own}


def _as_text(value: Any) -> str:
    """One text for a number or a truth value, however it is written."""
    text = str(value).strip().lower()
    try:
        number = float(text)
    except ValueError:
        return text
    return repr(number)


def _encoded(source: Any, names: Any) -> Iterator[tuple[str, list[Any]]]:
    """Columns and the categories that encoders in a pipeline know of them, wherever they stand.

    Args:
        names: of the columns that it was given; None if they are not known. An encoder behind an
            imputer gets an array, and knows no names itself.
    """
    names = getattr(source, "feature_names_in_", names)
    if names is None:
        return
    if hasattr(source, "categories_"):
        for name, known in zip(names, source.categories_, strict=False):
            yield str(name), list(known)
    for _, step, columns in getattr(source, "transformers_", ()):
        yield from _encoded(step, _chosen(names, columns))
    for _, step in getattr(source, "steps", ()):
        yield from _encoded(step, names)
        names = _names_after(step, names)


def _chosen(names: Any, columns: Any) -> Any:
    """The names of the columns that a transformer was given: by name, by place or by a mask."""
    known = optional("pandas", extra="explain").Series(list(names), index=list(names))
    try:
        return np.atleast_1d(known.loc[columns])
    except (KeyError, TypeError):
        return np.atleast_1d(known.iloc[columns])


def _names_after(step: Any, names: Any) -> Any:
    """The names of the columns that a step of a pipeline hands on; None if it does not say."""
    try:
        return None if names is None else step.get_feature_names_out(names)
    except (AttributeError, ValueError):
        return None


def wrap_estimator(source: Any) -> WrappedModel:
    names = getattr(source, "feature_names_in_", None)
    columns = None if names is None else tuple(str(name) for name in names)
    classes: Any = getattr(source, "classes_", None)
    probable = hasattr(source, "predict_proba") and classes is not None
    outputs: DeclaredOutputs = Simplex() if probable else Unbounded()
    return WrappedModel(
        forward=EstimatorForward(source, "predict_proba" if probable else "predict", columns),
        identity=lambda: digest_of(source),
        width=_width(source),
        feature_names=columns,
        output_names=tuple(str(label) for label in classes) if probable else None,
        outputs=outputs,
        source=source,
    )


RAW_ARGUMENTS: Final[Mapping[str, Mapping[str, Any]]] = {
    "lightgbm": {"raw_score": True},
    "xgboost": {"output_margin": True},
    "catboost": {"prediction_type": "RawFormulaVal"},
}
"""How boosting is asked for its scores, before they become probabilities."""


@dataclass(frozen=True, eq=False)
class RawScoreForward(InspectedForward):
    """The scores of a classifier: log-odds of boosting and of linear models."""

    source: Any

    def __call__(self, rows: Rows) -> Any:
        more = RAW_ARGUMENTS.get(type(self.source).__module__.partition(".")[0])
        if more is None:
            return self.source.decision_function(rows)
        return self.source.predict(rows, **more)

    def steady(self) -> Forward | None:
        known = hasattr(self.source, "decision_function")
        return self if known and estimators.is_row_wise(self.source, "decision_function") else None


def raw_scores(classifier: Any, outputs: DeclaredOutputs | None = None) -> WrappedModel:
    """A classifier's scores before they become probabilities, as a model of their own.

    Exact values of boosted trees follow from the trees on this scale only.

    Args:
        classifier: of scikit-learn, LightGBM, XGBoost or CatBoost, fitted on numbers.
        outputs: where scores lie; needed to release explanations of them.

    >>> from sklearn.linear_model import LogisticRegression
    >>> model = raw_scores(LogisticRegression().fit([[0.0], [1.0]], ["no", "yes"]))
    >>> model.output_names, model.predict(np.array([[0.5]])).round(3).tolist()
    (('yes',), [[0.0]])
    """
    whole, labels = wrap(classifier), [str(label) for label in classifier.classes_]
    return replace(
        whole,
        forward=RawScoreForward(classifier),
        identity=lambda: digest_of([whole.digest, "raw scores"]),
        output_names=tuple(labels[1:] if len(labels) == 2 else labels),
        outputs=Unbounded() if outputs is None else outputs,
    )


def wrap_booster(source: Any) -> WrappedModel:
    if type(source).__module__.startswith("xgboost"):
        matrix = optional("xgboost", extra="explain").DMatrix
        names = tuple(source.feature_names) if source.feature_names else None

        def forward(rows: Rows) -> Any:
            return source.predict(matrix(rows, feature_names=source.feature_names))

        return WrappedModel(
            forward=forward,
            identity=lambda: digest_of(bytes(source.save_raw("json"))),
            feature_names=names,
            source=source,
        )
    return WrappedModel(
        forward=source.predict,
        identity=lambda: digest_of(source.model_to_string()),
        feature_names=tuple(source.feature_name()),
        source=source,
    )


def _width(source: Any) -> int | None:
    try:
        width = source.n_features_in_
    except AttributeError:  # a pipeline whose first step does not know
        return None
    return int(width)


# --- Whether a wrapped pipeline predicts what the pipeline itself predicts -----------------------


LARGEST_DIFFERENCE: Final = 1e-6


@dataclass(frozen=True)
class PredictionComparison:
    """How far predictions differ. Over protected rows it is for their custodian only.

    Args:
        rows: how many were compared: those that fit the schema and miss nothing, and those with a
            category that the pipeline knows and the schema does not list.
        changed: in how many of them a prediction differs by more than 1e-6.
        largest: the largest difference.
    """

    rows: int
    changed: int
    largest: float


def compare_predictions(model: WrappedModel, table: ColumnTable) -> PredictionComparison:
    """Compare a pipeline that was wrapped with a schema with the pipeline itself.

    Over protected rows the result tells about them: look at it, and never pass it on.

    Args:
        model: from `wrap(pipeline, schema)`.
        table: raw values, as the pipeline was trained on.
    """
    inner = model.forward
    if not isinstance(inner, EstimatorForward) or inner.schema is None or inner.columns is None:
        raise InvalidInput("expected a model from `wrap(pipeline, schema)`")
    frame = optional("pandas", extra="explain").DataFrame(table)
    kept = frame[_compared(inner, inner.schema, frame)]
    if not len(kept):
        return PredictionComparison(0, 0, 0.0)
    own = np.asarray(getattr(inner.source, inner.method)(kept[list(inner.columns)]))
    if own.dtype.kind not in "fiub":
        raise InvalidInput(f"the model must return numbers, found an array of {own.dtype}")
    wrapped = np.asarray(inner(inner.schema.rows(kept)))
    same = (own == wrapped) | (np.isnan(own) & np.isnan(wrapped))
    apart = np.nan_to_num(np.where(same, 0.0, np.abs(own - wrapped)), nan=np.inf)
    each = apart.reshape(len(kept), -1).max(axis=1)
    changed = int((each > LARGEST_DIFFERENCE).sum())
    return PredictionComparison(len(kept), changed, float(each.max()))


def check_predictions(model: WrappedModel, table: ColumnTable) -> None:
    """Refuse a model that predicts otherwise than its pipeline; for public rows only."""
    found = compare_predictions(model, table)
    if found.changed:
        raise InvalidInput(
            f"the wrapped model predicts otherwise than the pipeline in {found.changed} of "
            f"{found.rows} rows, by up to {found.largest:.3g}. The schema changes values that the "
            "pipeline tells apart, such as blanks around a category, or lacks a category that it "
            "knows. Fit the pipeline on values as the schema writes them"
        )


def _compared(inner: EstimatorForward, schema: Schema, frame: Any) -> Any:
    """Rows that the schema leaves as they are: for others it states what it puts instead.

    A category that the pipeline knows and the schema does not list is no such other: the default
    would stand for it without a word.
    """
    fits, known = np.ones(len(frame), dtype=np.bool_), own_categories(inner.source)
    for feature in schema.features:
        reading = feature.domain.read(raw_column(frame[feature.name], feature.name))
        for problem, mask in feature.domain.problems(reading).items():
            if problem is Problem.UNKNOWN and feature.name in known:
                mask = mask & ~frame[feature.name].isin(known[feature.name]).to_numpy()
            fits &= ~mask
    return fits


# --------------------------------------------------------------------------------------------------


_COMPARED: Final = 64
"""Rows drawn from the schema on which a wrapped pipeline is compared with itself."""


def wrap(
    model: Any,
    schema: Schema | None = None,
    *,
    outputs: DeclaredOutputs | None = None,
    output_names: Sequence[str] | None = None,
    gradient: Backward | None = None,
    digest: str | None = None,
    treats_rows_independently: bool = False,
    public_rows: ColumnTable | None = None,
) -> WrappedModel:
    """Make a model of a scikit-learn estimator, a torch module, ONNX, boosting, or any callable.

    Args:
        model: an estimator, `torch.nn.Module`, onnxruntime session, the path of an ONNX file, an
            XGBoost or LightGBM booster, a callable from rows (n, d) to (n,) or (n, outputs), or
            something wrapped before.
        schema: for an estimator fitted on raw values, a pipeline over a DataFrame with texts for
            example: rows are turned back into a DataFrame of them (category names instead of
            positions) before they are handed over.
        outputs: where its outputs lie; derived for classifiers with probabilities. Outputs outside
            are clamped and counted in `diagnostics`.
        output_names: one name per output.
        gradient: for a callable, the derivative of output k: `(rows, k) -> (n, d)`.
        digest: what identifies it, where that cannot be computed.
        treats_rows_independently: declares that the answer for a row depends on no other row of its
            batch, but for rounding of at most 2⁻²⁰ of the range of outputs. Only for models that
            voile does not know to be so (`voile.models.row_wise`): over protected rows those are
            slow, because they get one of them in a call. Guarantees name the declaration among
            their assumptions; one that is seen to be false is refused.
        public_rows: with `schema`, raw values that anybody may see, as the model was fitted on.
            Predictions are compared on them, else on rows drawn from the schema; a difference above
            1e-6 is refused. Protected rows do not belong here: see `compare_predictions`.
    """
    wrapped = _dispatch(model)
    if schema is not None:
        wrapped = _on_raw_values(wrapped, schema)
        _compare(wrapped, schema, public_rows)
    elif public_rows is not None:
        raise InvalidInput("`public_rows=` needs `schema=`, which says how they are read")
    changes: dict[str, Any] = {}
    if outputs is not None:
        changes["outputs"] = outputs
    if output_names is not None:
        changes["output_names"] = _names(output_names, wrapped.output_names)
    if gradient is not None:
        changes["backward"] = gradient
    if treats_rows_independently:
        changes["treats_rows_independently"] = True
    if digest is not None:
        changes["identity"] = lambda: digest
    return replace(wrapped, **changes) if changes else wrapped


def _dispatch(model: Any) -> WrappedModel:
    if isinstance(model, WrappedModel):
        return model
    if isinstance(model, str | Path):
        return load_file(Path(model))
    for fits, adapter in _ADAPTERS:
        if fits(model):
            return adapter(model)
    raise InvalidInput(
        "expected a scikit-learn estimator, a torch module, an ONNX session or file, a booster or "
        f"a callable, found {type(model).__name__}"
    )


def _wrap_callable(model: Callable[[Rows], Any]) -> WrappedModel:
    return WrappedModel(forward=model, identity=lambda: digest_of(model), source=model)


_ADAPTERS: list[tuple[Callable[[Any], bool], Callable[[Any], WrappedModel]]] = [
    (is_network, wrap_network),
    (is_session, wrap_session),
    (is_booster, wrap_booster),
    (is_estimator, wrap_estimator),
    (callable, _wrap_callable),
]


def _names(given: Sequence[str], derived: tuple[str, ...] | None) -> tuple[str, ...]:
    names = (given,) if isinstance(given, str) else tuple(given)
    if not all(isinstance(name, str) and name for name in names) or len(set(names)) != len(names):
        raise InvalidInput(f"output_names must be different texts, found {list(names)}")
    if not names or (derived is not None and len(derived) != len(names)):
        raise InvalidInput(
            f"the model has {len(derived or ())} outputs, found {len(names)} output_names"
        )
    return names


def _compare(wrapped: WrappedModel, schema: Schema, public_rows: ColumnTable | None) -> None:
    if public_rows is not None:
        check_predictions(wrapped, public_rows)
        return
    inner = wrapped.forward
    assert isinstance(inner, EstimatorForward)
    drawn = schema.table(draw_rows(schema, _COMPARED, np.random.default_rng(0)))
    known = np.ones(_COMPARED, dtype=np.bool_)
    for name, texts in own_categories(inner.source).items():
        if name in drawn:
            # As it was trained on; it need not know every category that the schema lists.
            own = {_plain(text): text for text in texts} | dict(inner.spelling.get(name, {}))
            known &= np.array([_plain(text) in own for text in drawn[name]])
            drawn[name] = np.array([own.get(_plain(t), t) for t in drawn[name]], dtype=object)
    table = {name: column[known] for name, column in drawn.items()}
    frame = optional("pandas", extra="explain").DataFrame(table)
    try:
        getattr(inner.source, inner.method)(frame[list(inner.columns or ())])
    except ValueError:
        return  # the pipeline itself takes no such rows: there is nothing to compare with
    check_predictions(wrapped, table)


def _plain(value: object) -> object:
    return value.strip() if isinstance(value, str) else value


def _on_raw_values(wrapped: WrappedModel, schema: Schema) -> WrappedModel:
    inner = wrapped.forward
    if type(inner) is not EstimatorForward:
        raise InvalidInput("`schema=` is for estimators fitted on a DataFrame of raw values")
    columns = wrapped.feature_names or schema.feature_names
    if set(columns) != set(schema.feature_names):
        raise InvalidInput(
            f"the model was fitted on {list(columns)}, the schema declares "
            f"{list(schema.feature_names)}"
        )
    identity, spelling = wrapped.identity, own_spelling(inner.source, schema)
    # A model that was fed another spelling before gave other answers: it is another model.
    parts = [spelling] if spelling else []
    return replace(
        wrapped,
        forward=replace(inner, columns=tuple(columns), schema=schema, spelling=spelling),
        identity=lambda: digest_of([identity(), schema.digest, *parts]),
        feature_names=schema.feature_names,
        width=len(schema.feature_names),
    )
