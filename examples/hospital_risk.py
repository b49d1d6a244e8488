"""Why is this patient's risk high, compared with the patients of our own hospital?

The risk score is public. What it is compared with is not: the records of one hospital. Three ways
to ask, all from one account:

1. the explanation of one patient over the hospital's records, with noise: paid for each time;
2. a synthetic background, paid for once: from then on explanations are free;
3. what matters over all patients of the hospital.

A look ahead says what each would cost and how precise it would be, before anything is spent.

    python -m examples.hospital_risk
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from voile import Explanation, plots
from voile.attribution import ExactShapley
from voile.audit_log import Policy, Report, explanation_bytes, verify_receipt
from voile.core.guarantee import Protected, ProtectedUnit, Relation
from voile.datasets import clinic_federation
from voile.ledger import Opening, remaining
from voile.models import Box, WrappedModel, wrap
from voile.release import (
    PUBLIC,
    ByExplainer,
    PostProcessed,
    Preview,
    PrivateBackgroundShapley,
    PrivateGlobalImportance,
)
from voile.workflows.books import Books, open_books
from voile.workflows.budget import open_budget
from voile.workflows.explain import Explained, Explainer, paid_synthetic_background

DATASET = "harbour hospital 2026"
CLINIC = clinic_federation(400, seed=3)
RECORDS = CLINIC.hospitals["harbour"].rows
PATIENT = CLINIC.schema.clamp(
    [[78.0, 24.0, 1.0, 104.0, 112.0, 88.0, 38.6, 2.1, 150.0, 10.4, 60.0, 3.0]]
)
RULE = "risk rule v1"
PATIENTS = Protected(ProtectedUnit.ROW, Relation.BLANK_ONE, DATASET)
RULES: dict[str, Any] = {"protected": PATIENTS, "delta": 1e-6}


@dataclass(frozen=True)
class Story:
    """What came out of it."""

    preview: Preview
    over_records: Explained
    over_synthetic: Explained
    importance: Explained
    used: float
    checked: tuple[Report, ...]
    pictures: tuple[Path, ...]


def main(folder: Path) -> Story:
    """The whole story; everything it writes goes into `folder`."""
    with open_books(folder / "books", "example.org/harbour-hospital") as books:
        open_account(books)
        over_records = explain_over_records(books)
        explainers = (over_records, explain_over_synthetic(books), explain_importance(books))
        one, free, importance = (
            explainers[0](PATIENT),
            explainers[1](PATIENT),
            explainers[2](RECORDS),
        )
        books.publish()
        checked = tuple(
            check_offline(asked, explained, books.policy)
            for asked, explained in zip(explainers, (one, free, importance), strict=True)
        )
        left = books.storage.submit(lambda t: remaining(books.ledger, t, "harbour"))
    pictures = (
        drawn(one.explanation, folder / "over-records.png"),
        drawn(importance.explanation, folder / "importance.png"),
    )
    preview = over_records.preview()
    return Story(preview, one, free, importance, 1 - left.share, checked, pictures)


def open_account(books: Books) -> None:
    account = Opening(
        name="harbour",
        protected=PATIENTS,
        epsilon=3.0,
        delta=1e-5,
    )
    open_budget(books.storage, books.ledger, books.log, account, caller="custodian")


def risk() -> WrappedModel:
    """A published rule: it was made without this hospital's records."""
    return wrap(CLINIC.risk, outputs=Box(0, 1), output_names=("readmission",), digest=RULE)


def explain_over_records(books: Books) -> Explainer:
    release = PrivateBackgroundShapley(
        risk(), RECORDS, schema=CLINIC.schema, epsilon=0.5, origins=(PUBLIC,), **RULES
    )
    return Explainer(release, books.desk, "harbour", caller="ward 3", purpose="discharge talk")


def explain_over_synthetic(books: Books) -> Explainer:
    made = paid_synthetic_background(
        books.desk, "harbour", RECORDS, CLINIC.schema, epsilon=1.0, delta=1e-6, size=100
    )
    release = PostProcessed(
        ExactShapley(risk(), made.rows, schema=CLINIC.schema),
        [PUBLIC, made.origin],
        model=RULE,
        name="exact Shapley values over synthetic rows",
    )
    return Explainer(release, books.desk, caller="ward 3", purpose="discharge talk")


def explain_importance(books: Books) -> Explainer:
    explainer = ExactShapley(risk(), CLINIC.reference[:20], schema=CLINIC.schema)
    release = PrivateGlobalImportance(
        ByExplainer(explainer, Box(0, 1), CLINIC.schema),
        epsilon=0.5,
        origins=(PUBLIC,),
        model=RULE,
        name="exact Shapley values over 20 public rows",
        **RULES,
    )
    return Explainer(release, books.desk, "harbour", caller="quality office", purpose="report")


def check_offline(asked: Explainer, explained: Explained, policy: Policy) -> Report:
    (receipt,) = asked.receipts(explained)
    return verify_receipt(bytes(receipt), policy, answer=explanation_bytes(explained.explanation))


def drawn(explanation: Explanation, path: Path) -> Path:
    plots.bar(explanation).savefig(path, dpi=150)
    return path


def said(story: Story) -> str:
    """For the ward, and for the data-protection officer."""
    lines = []
    for title, explained in (
        (f"compared with {len(RECORDS)} private records", story.over_records),
        ("compared with synthetic rows, free from now on", story.over_synthetic),
        (f"what matters over all {len(RECORDS)} patients", story.importance),
    ):
        shown = explained.explanation
        order = np.argsort(-np.abs(shown.values[0, :, 0]))[:4]
        lines += [title, *(_line(shown, place) for place in order), ""]
    verified = all(report.verified for report in story.checked)
    return "\n".join(
        [
            *lines,
            f"of the hospital's budget {story.used:.0%} is used; receipts "
            + ("verified offline" if verified else "NOT VERIFIED"),
            f"looking ahead: {story.preview.remarks[0]}",
        ]
    )


def _line(shown: Explanation, place: int) -> str:
    width = shown.half_widths
    within = "" if width is None else f" ± {width[0, place, 0]:.3f}"
    return f"  {shown.feature_names[place]:<22} {shown.values[0, place, 0]:+.3f}{within}"


if __name__ == "__main__":
    where = Path(sys.argv[1] if len(sys.argv) > 1 else "hospital-risk")
    print(said(main(where)))
    print(f"\n{where}: pictures, and the hospital's books")
