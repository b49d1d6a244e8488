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
from voile.app.budget import open_budget
from voile.app.explain import ReleasedExplanation, ReleaseService, paid_synthetic_background
from voile.attribution import ExactShapley
from voile.core.guarantee import Protected, ProtectedUnit, Relation
from voile.datasets import clinic_federation
from voile.models import Box, WrappedModel, wrap
from voile.records.audit_log import Policy, Report, explanation_bytes, verify_receipt
from voile.records.ledger import Opening, remaining
from voile.records.vault import Vault, open_vault
from voile.release import (
    PUBLIC,
    ByExplainer,
    PostProcessed,
    Preview,
    PrivateBackgroundShapley,
    PrivateGlobalImportance,
)

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
    over_records: ReleasedExplanation
    over_synthetic: ReleasedExplanation
    importance: ReleasedExplanation
    used: float
    checked: tuple[Report, ...]
    pictures: tuple[Path, ...]


def main(folder: Path) -> Story:
    """The whole story; everything it writes goes into `folder`."""
    with open_vault(folder / "books", "example.org/harbour-hospital") as vault:
        open_account(vault)
        service = ReleaseService(vault)
        ward: Any = {"caller": "ward 3", "purpose": "discharge talk"}
        private = over_records()
        one = service.answer(private, PATIENT, payer="harbour", **ward)
        free = service.answer(over_synthetic(service), PATIENT, **ward)
        importance = service.answer(
            importances(), RECORDS, payer="harbour", caller="quality office", purpose="report"
        )
        vault.publish()
        checked = tuple(
            check_offline(service, explained, vault.policy) for explained in (one, free, importance)
        )
        left = vault.storage.submit(lambda t: remaining(vault.ledger, t, "harbour"))
    pictures = (
        drawn(one.explanation, folder / "over-records.png"),
        drawn(importance.explanation, folder / "importance.png"),
    )
    return Story(service.preview(private), one, free, importance, 1 - left.share, checked, pictures)


def open_account(vault: Vault) -> None:
    account = Opening(
        name="harbour",
        protected=PATIENTS,
        epsilon=3.0,
        delta=1e-5,
    )
    open_budget(vault.storage, vault.ledger, vault.log, account, caller="custodian")


def risk() -> WrappedModel:
    """A published rule: it was made without this hospital's records."""
    return wrap(CLINIC.risk, outputs=Box(0, 1), output_names=("readmission",), digest=RULE)


def over_records() -> PrivateBackgroundShapley:
    return PrivateBackgroundShapley(
        risk(), RECORDS, schema=CLINIC.schema, epsilon=0.5, origins=(PUBLIC,), **RULES
    )


def over_synthetic(service: ReleaseService) -> PostProcessed:
    made = paid_synthetic_background(
        service, "harbour", RECORDS, CLINIC.schema, epsilon=1.0, delta=1e-6, size=100
    )
    return PostProcessed(
        ExactShapley(risk(), made.rows, schema=CLINIC.schema),
        [PUBLIC, made.origin],
        model=RULE,
        name="exact Shapley values over synthetic rows",
    )


def importances() -> PrivateGlobalImportance:
    explainer = ExactShapley(risk(), CLINIC.reference[:20], schema=CLINIC.schema)
    return PrivateGlobalImportance(
        ByExplainer(explainer, Box(0, 1), CLINIC.schema),
        epsilon=0.5,
        origins=(PUBLIC,),
        model=RULE,
        name="exact Shapley values over 20 public rows",
        **RULES,
    )


def check_offline(
    service: ReleaseService, explained: ReleasedExplanation, policy: Policy
) -> Report:
    (receipt,) = service.receipts(explained)
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
