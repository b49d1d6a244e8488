"""A payment is stopped, and the shop is told roughly why, without being told who the customer is.

A bank's fraud model looks at a payment. The shop may know that the alert is about the amount or the
hour, but must not learn the customer's record from it. So the explanation is made private toward
the shop, with the explained row as what is protected: any customer could have caused it.

- every customer has an account of their own, below one parent, opened at the first alert;
- the shop gets names of features, chosen by randomised response: a full vector would be noise;
- asking again gives the same answer, and costs nothing; asking for more is refused at some point.

The model was trained on earlier payments without differential privacy. Nothing is promised about
those, and the explanation says so.

    python -m examples.fraud_alert
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import RandomForestClassifier

from voile import plots
from voile.app.budget import open_budget
from voile.app.explain import ReleasedExplanation, ReleaseService, RowsToExplain
from voile.app.explain.files import write_receipts
from voile.attribution import ExactShapley
from voile.core.errors import BudgetExceeded
from voile.core.guarantee import Protected, ProtectedUnit, Relation
from voile.core.schema import Rows, Schema
from voile.models import WrappedModel, wrap
from voile.records.audit_log import Report, explanation_bytes, verify_receipt
from voile.records.ledger import AdaptiveSpending, Children, Opening
from voile.records.vault import Vault, open_vault
from voile.release import (
    PUBLIC,
    ClippedRelease,
    Preview,
    TopFeaturesOfRow,
    trained_on,
)

SCHEMA = Schema.loads("""
name = "payments v1"

[features.amount]
kind = "continuous"
bounds = [0, 2000]

[features.hour]
kind = "integer"
bounds = [0, 23]

[features.kilometres_from_home]
kind = "continuous"
bounds = [0, 3000]

[features.payments_today]
kind = "integer"
bounds = [0, 20]

[features.new_device]
kind = "categorical"
categories = ["no", "yes"]

[features.new_shop]
kind = "categorical"
categories = ["no", "yes"]
""")
DATASET = "payments, week 46"
PROTECTED = Protected(ProtectedUnit.EXPLAINED_ROW, Relation.REPLACE_ONE, DATASET)
CUSTOMER = "customer 4711"
PAYMENT = {
    "amount": [1450.0],
    "hour": [3],
    "kilometres_from_home": [1900.0],
    "payments_today": [2],
    "new_device": ["yes"],
    "new_shop": ["yes"],
}


@dataclass(frozen=True)
class Story:
    """What came out of it."""

    named: ReleasedExplanation
    again: ReleasedExplanation
    vector: Preview
    refused: str
    checked: Report
    picture: Path


def main(folder: Path) -> Story:
    """The whole story; everything it writes goes into `folder`."""
    model = fraud_model()
    explainer = ExactShapley(model, payments(60, seed=9)[0], schema=SCHEMA)
    settings: dict[str, Any] = {
        "schema": SCHEMA,
        "protected": PROTECTED,
        "origins": (trained_on("payments 2025"), PUBLIC),
        "model": model.digest,
        "name": "exact Shapley values",
    }
    names = TopFeaturesOfRow(explainer, k=2, epsilon=2.0, **settings)
    vector = ClippedRelease(explainer, bound=0.5, epsilon=2.0, delta=1e-6, **settings)
    with open_vault(folder / "books", "example.org/card-bank") as vault:
        open_account(vault)
        service = ReleaseService(vault)
        alert = partial(
            service.answer,
            names,
            RowsToExplain(PAYMENT, identifiers=[CUSTOMER]),
            payer="customers",
            caller="shop 12",
            purpose="fraud alert",
        )
        named, again = alert(), alert()
        refused = curious_shop(alert)
        vault.publish()
        (receipt,) = write_receipts(service, named, folder / "receipt.tlog-proof")
        checked = verify_receipt(
            receipt.read_bytes(), vault.policy, answer=explanation_bytes(named.explanation)
        )
    picture = folder / "alert.png"
    plots.bar(named.explanation).savefig(picture, dpi=150)
    return Story(named, again, vector.preview(), refused, checked, picture)


def curious_shop(alert: Callable[..., ReleasedExplanation]) -> str:
    """Fresh noise again and again would average out; the customer's account ends that."""
    try:
        for _ in range(10):
            alert(fresh=True)
    except BudgetExceeded as refused:
        return str(refused)
    raise AssertionError("ten answers fitted")


def open_account(vault: Vault) -> None:
    """Each customer's alerts add up; those of different customers do not.

    Randomised response has no delta of its own; such answers are counted best at one high Rényi
    order, where two of them fit in epsilon 6; in zero-concentrated accounting they would need 18.
    """
    account = Opening(
        name="customers",
        protected=PROTECTED,
        epsilon=6.0,
        delta=1e-6,
        spending=AdaptiveSpending((20.0,)),
        children=Children.PARALLEL,
    )
    open_budget(vault.storage, vault.ledger, vault.log, account, caller="custodian")


def fraud_model() -> WrappedModel:
    rows, fraud = payments(3_000, seed=1)
    fitted = RandomForestClassifier(n_estimators=25, max_depth=7, random_state=0)
    fitted.fit(rows, np.where(fraud > 0, "fraud", "sound"))
    return wrap(fitted).only("fraud")


def payments(count: int, seed: int) -> tuple[Rows, NDArray[np.float64]]:
    """Invented payments, and whether they were fraud."""
    draw = np.random.default_rng(seed)
    rows = np.column_stack(
        [
            draw.gamma(1.2, 120, count),
            draw.integers(0, 24, count),
            draw.gamma(0.6, 150, count),
            draw.poisson(2.0, count),
            draw.random(count) < 0.15,
            draw.random(count) < 0.4,
        ]
    )
    rows = SCHEMA.clamp(rows)
    amount, hour, far, today, device, shop = rows.T
    score = -6 + amount / 250 + 1.5 * (hour < 6) + far / 500 + 0.2 * today + 2 * device + 0.7 * shop
    return rows, (draw.random(count) < 1 / (1 + np.exp(-score))).astype(float)


def said(story: Story) -> str:
    """What the shop reads, and what the bank knows."""
    shown = story.named.explanation
    named = [
        name
        for name, value in zip(shown.feature_names, shown.values[0, :, 0], strict=True)
        if value
    ]
    epsilon = shown.guarantees[0].epsilon
    return f"""\
To the shop: this payment was stopped. What drew attention, among other things: {", ".join(named)}.

Such a list names true reasons more often than chance would, and never for certain: it could have
been caused by any customer's payment (epsilon {epsilon:g} for the explained row).

A full vector instead of names: {story.vector.remarks[0]}.
Asked again: {"the same answer, not charged" if story.again.replayed else "charged again"}.
Asked for fresh noise again and again: {story.refused}.
Receipt, checked offline: {"verified" if story.checked.verified else "NOT VERIFIED"}.
"""


if __name__ == "__main__":
    where = Path(sys.argv[1] if len(sys.argv) > 1 else "fraud-alert")
    print(said(main(where)))
    print(f"{where}: picture, receipt, and the bank's books")
