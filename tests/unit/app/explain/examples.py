"""What the tests of the explain workflow share: a small public model, releases of it, a desk."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tests.protecting import explained_row_of
from tests.unit.app.budget_examples import House
from tests.unit.records.ledger.examples import DATASET

from voile.app.explain import ReleasedExplanation, ReleaseService, RowsToExplain
from voile.attribution import ExactShapley
from voile.core.explanation import Explanation
from voile.core.guarantee import Adversary, Guarantee, Protected, ProtectedUnit, Relation
from voile.core.schema import Categories, Feature, Numbers, Schema
from voile.models import Box, WrappedModel, wrap
from voile.records.audit_log import Record, decode_record
from voile.records.ledger import Children
from voile.records.ledger.tables import BALANCES
from voile.release import PUBLIC, Origin, PostProcessed, trained_privately
from voile.release.clipped import ClippedRelease

SCHEMA = Schema(
    "loans v1",
    (
        Feature("income", Numbers(0, 10), 4.0, "money"),
        Feature("debt", Numbers(0, 10), 1.0, "money"),
        Feature("employed", Categories(("no", "yes")), "yes", "work"),
    ),
)
BACKGROUND = np.array([[2.0, 1.0, 1.0], [5.0, 4.0, 0.0], [8.0, 2.0, 1.0]])
ROWS = np.array([[3.0, 6.0, 0.0], [9.0, 1.0, 1.0], [4.0, 4.0, 1.0]])


def score(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """A public scoring rule."""
    income, debt, employed = rows.T
    logits = 0.4 * income - 0.6 * debt + employed * (income > 3)
    probability: NDArray[np.float64] = 1 / (1 + np.exp(-logits))
    return probability


def model() -> WrappedModel:
    return wrap(score, outputs=Box(0, 1), output_names=("approved",))


def exact() -> ExactShapley:
    return ExactShapley(model(), BACKGROUND, schema=SCHEMA)


TRAINED = Guarantee(
    epsilon=2.0,
    delta=1e-5,
    protected=Protected(ProtectedUnit.ROW, Relation.BLANK_ONE, "loans 2025"),
    against=(Adversary.PUBLIC,),
    computational=True,
    mechanism="DP-SGD",
    composition="one training run",
)


def free(*origins: Origin) -> PostProcessed:
    """Explanations that cost nothing, of a public model unless an origin says otherwise."""
    return PostProcessed(exact(), origins or (PUBLIC,), model="model v3", name="exact Shapley")


def private_training() -> Origin:
    return trained_privately(TRAINED)


def clipped(**changes: Any) -> ClippedRelease:
    given: dict[str, Any] = {
        "schema": SCHEMA,
        "bound": 0.5,
        "epsilon": 1.0,
        "delta": 1e-6,
        "protected": explained_row_of(DATASET),
        "origins": (PUBLIC,),
        "model": "model v3",
        "name": "exact Shapley",
    }
    return ClippedRelease(exact(), **(given | changes))


def people(house: House, epsilon: float = 3.0, **changes: Any) -> str:
    """A parallel account for explained rows."""
    given: dict[str, Any] = {
        "unit": ProtectedUnit.EXPLAINED_ROW,
        "relation": Relation.REPLACE_ONE,
        "children": Children.PARALLEL,
        "epsilon": epsilon,
        "delta": 1e-5,
    }
    house.open("people", **(given | changes))
    return "people"


def house_in(folder: Path) -> House:
    return House.create("memory:", folder)


def records(house: House) -> list[Record]:
    contents = house.storage.submit(lambda t: house.vault.log.records(t, limit=10**6))
    return [decode_record(content) for content in contents]


def balances(house: House) -> dict[str, bytes]:
    """The whole ledger, as far as sums go."""
    return {row.account: row.sums for row in house.storage.submit(lambda t: t.scan(BALANCES))}


@dataclass(frozen=True)
class Asking:
    """One release, one payer, one caller: asked again and again."""

    service: ReleaseService
    release: Any
    payer: str | None
    notes: tuple[str, ...] = ()
    asked: dict[str, Any] = field(default_factory=dict)

    def __call__(
        self, rows: Any, *, identifiers: Any = None, population: str | None = None, **call: Any
    ) -> ReleasedExplanation:
        given = RowsToExplain(rows, identifiers, self.notes, population)
        said = {"caller": "explainer"} | self.asked | call
        return self.service.answer(self.release, given, payer=self.payer, **said)

    def receipts(self, explained: ReleasedExplanation) -> Any:
        return self.service.receipts(explained)

    def row_receipt(self, explained: ReleasedExplanation, row: int) -> Any:
        return self.service.row_receipt(explained, row)

    def preview(self, rows: int = 1) -> Any:
        return self.service.preview(self.release, rows, payer=self.payer)


def asking(
    house: House,
    release: Any,
    account: str | None = None,
    notes: tuple[str, ...] = (),
    **changes: Any,
) -> Asking:
    return Asking(house.service, release, account, notes, changes)


class Costly:
    """A release with a private background, as far as the workflow can see: rows are public."""

    def __init__(self, inner: ClippedRelease, **changes: Any) -> None:
        self._inner, self._changes = inner, changes
        self.drawn = 0

    def __getattr__(self, name: str) -> Any:
        return self._changes.get(name, getattr(self._inner, name))

    def draw(self, rows: Any) -> Explanation:
        self.drawn += 1
        return self._inner.draw(rows)
