"""Models as people have them, over rows that a schema describes.

Over protected rows the coding of text and categories comes from the schema alone, and so does every
row that a model is tried on: nothing is learned from protected rows, and no error tells of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from voile.core.errors import InvalidInput, VoileError
from voile.core.optional import optional
from voile.core.schema import Categories, RawColumn, Rows, Schema
from voile.core.schema.schema import draw_rows
from voile.datasets.frames import check_names
from voile.models import Box, Simplex, Unbounded, WrappedModel, digest_of, wrap
from voile.models.inspection.estimators import is_row_wise
from voile.models.outputs import DeclaredOutputs
from voile.models.wrapped import Forward, InspectedForward
from voile.python.plain.answers import Scale, source_of
from voile.python.plain.models import ALL, ReadModel, read_model

_Make: TypeAlias = Callable[[], WrappedModel]
_TRIED: Final = 32
"""Rows drawn from the schema on which a model is tried."""
_METHODS: Final = ("predict_proba", "decision_function", "predict")
"""What is asked of a model, the first that it has (`voile.python.plain.answers`)."""


def model_over_schema(
    model: Any, schema: Schema, *, like: Any = None, row_wise: bool = False
) -> WrappedModel:
    """A model that takes the rows of a schema, and turns them back into what it was fitted on.

    Args:
        model: an estimator or pipeline, a booster, a torch module, a function, or what `wrap` made.
        like: a table of the kind that the model takes (pandas or polars); only its type counts.
        row_wise: declares that the answer for a row depends on no other row of its batch; only for
            models that voile does not know to be so, which are slow over protected rows.

    >>> from sklearn.linear_model import LogisticRegression
    >>> import pandas as pd
    >>> table = pd.DataFrame({"age": [20.0, 40.0, 60.0], "bmi": [20.0, 30.0, 25.0]})
    >>> model = LogisticRegression().fit(table, ["no", "yes", "yes"])
    >>> schema = Schema({"age": (18, 100), "bmi": (10, 60)})
    >>> model_over_schema(model, schema).predict(schema.null_row[None]).shape
    (1, 2)
    """
    if isinstance(model, WrappedModel):
        return model
    names = source_of(model).names
    if names is not None:
        check_names(schema.feature_names, names, what="the schema")
    probes, failures = probe_rows(schema), list[Exception]()
    for make in _ways(model, schema, named=names is not None, like=like):
        try:
            found = wrap(make(), treats_rows_independently=row_wise)
            _check_answers(found, probes)
        except _OtherPredictions:
            raise
        except Exception as error:
            failures.append(error)
        else:
            return found
    raise _told(failures[0])


class _OtherPredictions(InvalidInput):
    """The model would be fed something else than it was fitted on, and would not complain."""


def _told(error: Exception) -> VoileError:
    if isinstance(error, VoileError):
        return error
    return InvalidInput(f"model: it raised {type(error).__name__}: {error}")


def _ways(model: Any, schema: Schema, *, named: bool, like: Any) -> Iterator[_Make]:
    """The one that voile knows best first: of scikit-learn it knows that rows stay apart."""
    if hasattr(model, "get_params") and hasattr(model, "predict"):
        if named:
            yield partial(_compared, model, schema)
        elif _are_numbers(schema):
            yield partial(wrap, model)
    for example in _examples(schema, like):
        yield partial(_over_tables, model, schema, example)


def _compared(model: Any, schema: Schema) -> WrappedModel:
    """Refused where the schema's rows are others than the model's own."""
    try:
        return wrap(model, schema)
    except InvalidInput as error:
        raise _OtherPredictions(str(error)) from error


def _are_numbers(schema: Schema) -> bool:
    """Whether rows hold the values themselves, and no places in a list of others."""
    return all(
        not isinstance(each.domain, Categories)
        or each.domain.values == tuple(range(len(each.domain.values)))
        for each in schema.features
    )


def probe_rows(schema: Schema) -> Rows:
    """Rows that hold every category and both ends of every bound; public."""
    rows = [schema.null_row]
    for place, feature in enumerate(schema.features):
        domain = feature.domain
        values = (
            range(len(domain.values))
            if isinstance(domain, Categories)
            else (domain.lower, domain.upper)
        )
        for value in values:
            row = schema.null_row.copy()
            row[place] = value
            rows.append(row)
    return np.concatenate([np.array(rows), draw_rows(schema, _TRIED, np.random.default_rng(0))])


def _check_answers(model: WrappedModel, probes: Rows) -> None:
    """A model that fails would be explained as if it always said nothing."""
    try:
        model.predict(probes.copy())
    except VoileError:
        raise
    except Exception as error:
        raise InvalidInput(
            f"model: it raised {type(error).__name__} for a row that the schema allows: {error}. "
            "Declare the values that it was fitted on, or fit it so that it takes all of these"
        ) from error


# --- over tables ----------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class SchemaTables(InspectedForward):
    """What a model says of rows of a schema, handed over as a table of its own kind.

    Args:
        read: the model, and how numbers become its tables.
        schema: of the rows.
    """

    read: ReadModel
    schema: Schema

    def __call__(self, rows: Rows) -> Any:
        coded = np.empty((len(rows), len(self._columns)))
        for column, (place, codes) in enumerate(self._columns):
            cells = rows[:, place]
            coded[:, column] = cells if codes is None else codes[cells.astype(np.intp)]
        return self.read.predict(coded)

    def steady(self) -> Forward | None:
        """The table is made cell by cell, so rows stay apart where the model keeps them apart."""
        source = self.read.source
        offered = (each for each in _METHODS if hasattr(source.model, each))
        method = source.asked or next(offered, "")
        return self if is_row_wise(source.model, method) else None

    @cached_property
    def _columns(self) -> tuple[tuple[int, NDArray[np.float64] | None], ...]:
        """In the model's order: the place in the schema, and the code of each category."""
        places = {name: place for place, name in enumerate(self.schema.feature_names)}
        return tuple(
            (places[column.name], self._codes(places[column.name], column))
            for column in self.read.codec.columns
        )

    def _codes(self, place: int, column: Any) -> NDArray[np.float64] | None:
        domain = self.schema.features[place].domain
        if not isinstance(domain, Categories):
            return None
        places = np.arange(len(domain.values), dtype=np.float64)
        return np.asarray(column.encode(domain.raw(places), "schema"))


def _over_tables(model: Any, schema: Schema, example: Any) -> WrappedModel:
    read = read_model(model, example, output=ALL)
    forward = SchemaTables(read, schema)
    itself = read.source.model if read.source.asked else model
    more = [schema.digest, read.source.asked, read.codec.kind.name]
    return WrappedModel(
        forward=forward,
        identity=lambda: digest_of([wrap(itself).digest, *more]),
        width=len(schema.feature_names),
        feature_names=schema.feature_names,
        output_names=read.output_names,
        outputs=_outputs(read),
        source=model,
    )


def _outputs(read: ReadModel) -> DeclaredOutputs:
    """What probabilities are; of anything else nobody has declared a range."""
    if read.scale is not Scale.PROBABILITY:
        return Unbounded()
    return Simplex() if len(read.names) > 1 else Box(0.0, 1.0)


def _examples(schema: Schema, like: Any) -> Iterator[Any]:
    """Tables of public rows: of plain columns, then with categories in a type of their own."""
    columns = schema.table(probe_rows(schema))
    home = type(like).__module__.partition(".")[0]
    if home == "polars":
        polars = optional("polars", extra="explain")
        yield polars.DataFrame({name: cells.tolist() for name, cells in columns.items()})
        return
    pandas = optional("pandas", extra="explain")
    yield pandas.DataFrame(columns)
    yield pandas.DataFrame(
        {name: _typed(pandas, schema, name, cells) for name, cells in columns.items()}
    )


def _typed(pandas: Any, schema: Schema, name: str, cells: RawColumn) -> Any:
    domain = schema.features[schema.feature_names.index(name)].domain
    if not isinstance(domain, Categories):
        return cells
    return pandas.Categorical(cells, categories=list(domain.values))
