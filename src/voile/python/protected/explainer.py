"""`ProtectedExplainer`: explanations of a model that are safe to publish, each paid for by name.

It fills the command `Explain` and calls its handler, as the command line does.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from os import PathLike
from typing import Any, Final, Self

import numpy as np

from voile.app.calls import Context, handle
from voile.app.commands.explain import Explain, ExplanationSpec
from voile.app.commands.fields import InMemory
from voile.app.explain_rows import ExplainResult, PreviewResult
from voile.attribution import Speed
from voile.core.choices import chosen
from voile.core.errors import InvalidInput, Refused
from voile.core.guarantee import RowPart
from voile.core.schema import Schema
from voile.core.schema.cells import RawColumn
from voile.datasets.frames import columns_of, is_frame, share_rows
from voile.models import WrappedModel
from voile.python.budget import Budget
from voile.python.file_names import file_named
from voile.python.progress import check_progress
from voile.python.protected.model import model_over_schema
from voile.python.protected.prices import OFFERED, CallPrice, PriceList, UnstatedPrice
from voile.python.protected.receipts import ReleaseReceipt
from voile.python.protected.rows import protected_columns
from voile.python.protected.terms import (
    PARTS,
    UNSTATED,
    check_background,
    check_figures,
    check_origin,
    check_range,
    check_unit,
    given_schema,
    needed_budget,
    same_rows,
    thinned,
    word_of,
)
from voile.python.protected.work import Work
from voile.python.view import ExplanationView
from voile.python.words import in_python_words

_RENAMED: Final = {"output": "output_name"}


class ProtectedExplainer:
    """Explains with a guarantee: charged to a budget, recorded in its log.

    The background is protected, or the rows that are explained are: `protect` says which. Nothing
    is charged unless `epsilon` or `noise` is stated, here or in the call.

    Assumes that what is said about origins is true. Promises that protected rows are neither shown
    nor told of by errors, and that the same question is charged once.

    Args:
        model: an estimator, pipeline, booster, network or function; or the path of a model that
            voile trained.
        background: rows that absent features take their values from. Protected if `protect` says
            so; public rows need `background_origin="public"`.
        protect: `background`, `population`, `explained` or `training`.
        schema: bounds and categories, declared without looking at protected rows.
        budget: what pays, and where it is put on record.
        model_origin: what the model was trained on: `public`, `trained-on:LABEL`, or a JSON file
            with the guarantees of its training. The promise rests on it.
        terms: `epsilon` or `noise` for every call; `background_rows`, how many protected background
            rows to use; `output`, `output_range`, and other fields of
            `voile.app.commands.explain.ExplanationSpec`.

    >>> from voile import Budget, Schema
    >>> budget = Budget.in_memory("clinic 2026", epsilon=3, delta=1e-6)
    >>> explainer = ProtectedExplainer(
    ...     lambda rows: rows["age"] / 100, {"age": [20.0, 50.0] * 100}, protect="background",
    ...     schema=Schema({"age": (0, 100)}), budget=budget, model_origin="public",
    ...     output_range=(0, 1))
    >>> print(explainer.preview({"age": 80}, epsilon=0.5).cost)
    0.5
    >>> why = explainer({"age": 80}, epsilon=0.5)
    >>> why.shape, why.guarantee.epsilon
    ((1, 1), 0.5)
    """

    def __init__(
        self,
        model: Any,
        background: Any = None,
        *,
        protect: str,
        schema: Schema | str | PathLike[str] | None = None,
        budget: Budget | None = None,
        model_origin: str | None = None,
        **terms: Any,
    ) -> None:
        self.protect = chosen(PARTS, str(protect).partition("-")[0], "protect")
        self._is_named = isinstance(model, str | PathLike)
        self.budget = needed_budget(budget, self.protect)
        self._usual = {key: terms.pop(key, None) for key in ("epsilon", "noise")}
        self._progress = check_progress(terms.pop("progress", None))
        most = terms.pop("background_rows", UNSTATED)
        steady = terms.pop("treats_rows_independently", False)
        self.schema = None if schema is None and self._is_named else given_schema(schema)
        check_origin(model_origin, self.protect, named=self._is_named)
        check_background(background, terms, self.protect, named=self._is_named)
        stated = {_RENAMED.get(key, key): value for key, value in terms.items()}
        self._given, self._given_columns = background, dict[str, RawColumn]()
        self._wrapped: WrappedModel | None = None
        self._terms: dict[str, Any] = {
            **{key: value for key, value in stated.items() if value is not None},
            "protect": self.protect,
            "account": None if self.protect is RowPart.TRAINING else self.budget.account,
            "model_origin": model_origin,
        }
        with in_python_words():
            self._terms["model"] = self._model(model, background, steady=steady)
            self._terms["background"] = self._background(background, most)
            if self.schema is not None:
                self._terms["schema"] = InMemory(self.schema, f"schema {self.schema.name!r}")
            ExplanationSpec.read(self._stated({}), "Explainer")
            check_unit(self.budget, self.protect)
        self._known: dict[Any, dict[Any, Any]] = {}
        self._work = self._work_of(self._terms["background"])

    # --- asking -----------------------------------------------------------------------------------

    def __call__(
        self,
        rows: Any,
        *,
        epsilon: float | None = None,
        noise: float | None = None,
        redraw: bool = False,
        purpose: str = "explanation",
        caller: str = "analyst",
    ) -> ExplanationView:
        """Explain rows: charge, record, then show.

        Args:
            rows: a table of pandas, polars or pyarrow, an array, a dict of columns, or one person.
            epsilon: what the whole call may cost; of each record, where records are protected.
            noise: instead of it, the noise on one value as a share of the output's width.
            redraw: pay for new noise, even if the question was answered before.
            purpose, caller: recorded in the log.
        """
        with in_python_words():
            given = self._rows(rows)
            price = self._price(epsilon, noise)
            if price is None:
                raise UnstatedPrice(self._prices(given))
            stated = {"redraw": redraw, "purpose": purpose, "caller": caller}
            with self._watched(given):
                result = handle(self._command(price, given, **stated), self._context(price))
            assert isinstance(result, ExplainResult)
            return self._seen(result, given)

    def preview(
        self,
        rows: Any,
        *,
        epsilon: float | None = None,
        noise: float | None = None,
        redraw: bool = False,
        caller: str = "analyst",
    ) -> CallPrice:
        """What the whole call would cost and how precise it would be; charges nothing.

        Args: see `__call__`.
        """
        with in_python_words():
            given = self._rows(rows)
            price = self._price(epsilon, noise)
            if price is None:
                raise UnstatedPrice(self._prices(given))
            return self._previewed(price, given, redraw=redraw, caller=caller)

    def prices(self, rows: Any) -> PriceList:
        """What ε = 0.1, 0.3 and 1 would give for these rows; charges nothing."""
        with in_python_words():
            return self._prices(self._rows(rows))

    # --- what a call is made of -------------------------------------------------------------------

    def _price(self, epsilon: float | None, noise: float | None) -> dict[str, Any] | None:
        """What was stated, as fields of the command; None if nothing was."""
        if epsilon is None and noise is None:
            epsilon, noise = self._usual["epsilon"], self._usual["noise"]
        check_figures(epsilon=epsilon, noise=noise)
        if epsilon is not None and noise is not None:
            raise InvalidInput(
                "state epsilon or noise, not both: the price follows from the noise level"
            )
        if epsilon is not None:
            whole = self.protect is RowPart.BACKGROUND
            return {"total_epsilon" if whole else "epsilon": epsilon}
        if noise is not None:
            return {"noise": noise}
        return {} if self.protect is RowPart.TRAINING else None

    def _prices(self, given: Any) -> PriceList:
        """Each from public facts."""
        found = []
        for epsilon in OFFERED:
            price = self._price(epsilon, None)
            assert price is not None
            found.append(self._previewed(price, given))
        return PriceList(tuple(found))

    def _previewed(self, price: Mapping[str, Any], given: Any, **stated: Any) -> CallPrice:
        command = self._command(price, given, preview=True, **stated)
        result = handle(command, self._context(price))
        assert isinstance(result, PreviewResult)
        epsilon = price.get("total_epsilon", price.get("epsilon"))
        return CallPrice(result, self.protect, epsilon)

    def _command(self, price: Mapping[str, Any], given: Any, **stated: Any) -> Explain:
        return Explain.read({**self._stated(price), "data": given, **stated}, "explain")

    def _stated(self, price: Mapping[str, Any]) -> dict[str, Any]:
        everything = {**self._terms, **price}
        return {key: value for key, value in everything.items() if value is not None}

    def _context(self, price: Mapping[str, Any]) -> Context:
        """What was read and built for the same price before is known."""
        known = self._known.setdefault(tuple(price.items()), {})
        work = self._work
        return self.budget.context(known=known, speed=lambda: work.speed if work else Speed())

    def _watched(self, given: Any) -> AbstractContextManager[None]:
        """With a word about long work; of files nobody knows how long they are."""
        if self._work is None or isinstance(given, str):
            return nullcontext()
        return self._work.watched(len(next(iter(given.values()))))

    def _seen(self, result: ExplainResult, given: Any) -> ExplanationView:
        released, public = result.explained, not self.protect.is_explained
        display = _display(given, released.explanation.feature_names) if public else None
        service = self.budget.service()
        return ExplanationView(
            released.explanation,
            display=display,
            released=released,
            receipt=lambda: ReleaseReceipt(service, released),
            method=f"Shapley values, {word_of(self.protect)} protected",
        )

    # --- what people hand in ----------------------------------------------------------------------

    def _work_of(self, background: Any) -> Work | None:
        """None for a model that is named: the handler reads it."""
        if self._wrapped is None or self.schema is None or isinstance(background, str):
            return None
        count = None if background is None else len(next(iter(background.value.values())))
        one_by_one = self.protect.is_explained
        return Work(self._wrapped, self.schema, count, one_by_one, self._progress)

    def _model(self, model: Any, background: Any, *, steady: bool) -> Any:
        if self._is_named:
            return str(model)
        assert self.schema is not None
        like = None if isinstance(background, str | PathLike) else background
        wrapped = model_over_schema(model, self.schema, like=like, row_wise=steady)
        check_range(wrapped, self._terms.get("output_range"), self.protect)
        self._wrapped = wrapped
        return InMemory(wrapped, type(model).__name__)

    def _background(self, background: Any, most: Any) -> Any:
        if background is None:
            return None
        if isinstance(background, str | PathLike):
            return str(file_named(background, "background"))
        what = "the background"
        if self.protect is not RowPart.BACKGROUND:
            self._given_columns = self._public(background)
            return InMemory(self._given_columns, what)
        columns = self._given_columns = protected_columns(background, self._names, what=what)
        return InMemory(thinned(columns, most, self.schema), what)

    def _rows(self, rows: Any) -> Any:
        """The rows of a call, by column as they are."""
        if rows is self._given and rows is not None:
            raise Refused(same_rows(self.protect))
        if isinstance(rows, str | PathLike):
            return str(file_named(rows, "rows"))
        found = self._protected(rows) if self.protect.is_explained else self._public(rows)
        if share_rows(self._given_columns, found):
            raise Refused(same_rows(self.protect))
        return found

    def _protected(self, rows: Any) -> dict[str, RawColumn]:
        """Rows that are explained and protected, with their identifiers."""
        more = [each for each in (self._terms.get("id_column"),) if each is not None]
        return protected_columns(rows, self._names, what="rows", more=more)

    def _public(self, given: Any) -> dict[str, RawColumn]:
        """Rows that anybody may see."""
        return columns_of(given, None if is_frame(given) else self._names)

    @property
    def _names(self) -> tuple[str, ...] | None:
        """Of the columns; None where only the artefact knows them."""
        return None if self.schema is None else self.schema.feature_names

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, _memo: object) -> Self:
        return self

    def __reduce__(self) -> Any:
        """A file would hold the protected rows as they are."""
        raise Refused(
            "an explainer holds protected rows, so it is not pickled: make it anew where it is "
            "needed, or save what it explained"
        )

    def __repr__(self) -> str:
        return (
            f"Explainer of {self._terms['model']}, protects {word_of(self.protect)} rows, paid by "
            f"{self.budget.account!r}"
        )


def _display(given: Any, names: tuple[str, ...]) -> Any:
    """Public rows as people wrote them."""
    if isinstance(given, str) or not set(names) <= set(given):
        return None
    cells = np.empty((len(given[names[0]]), len(names)), dtype=object)
    for place, name in enumerate(names):
        cells[:, place] = given[name]
    return cells
