"""scikit-learn estimators, and gradient boosting from XGBoost and LightGBM if it is installed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from voile.core.digest_names import digest_name
from voile.core.errors import InvalidInput
from voile.core.optional import optional
from voile.core.schema import Categories, Schema
from voile.models.digests import digest_of
from voile.models.inspection import estimators
from voile.models.outputs import DeclaredOutputs, Simplex, Unbounded
from voile.models.wrapped import Forward, InspectedForward, Rows, WrappedModel


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
