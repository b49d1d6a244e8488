"""The examples tell the story that they promise, on every change."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from examples import (
    clinics,
    credit_decision,
    fraud_alert,
    hospital_risk,
    mlflow_receipts,
    privacy_guide,
)

from voile import Explanation
from voile.core.row_note import KnownNote
from voile.records.audit_log import CheckOutcome

SMALLEST_PICTURE = 5_000
FIRST = "74,no,99.8,2,no"  # pages state figures that follow from it


def test_the_applicant_learns_why_and_can_check_it(tmp_path: Path) -> None:
    story = credit_decision.main(tmp_path)
    outcomes = {step.name: step.outcome for step in story.checked.steps}
    assert story.checked.verified
    assert outcomes["answer"] is outcomes["inclusion"] is CheckOutcome.CHECKED
    assert KnownNote.NOTHING_TO_CHARGE in story.explained.explanation.notes
    assert story.explained.explanation.guarantees[0].epsilon == credit_decision.EPSILON
    assert "Article 22" in story.letter
    assert "Article 86" in story.letter
    assert "payments that were late" in story.letter.partition("in your favour")[0]
    assert story.picture.stat().st_size > SMALLEST_PICTURE
    assert (tmp_path / "letter.txt").read_text(encoding="utf-8") == story.letter
    assert Explanation.load(tmp_path / "explanation.voile") == story.explained.explanation


def test_a_patient_is_compared_with_private_records(tmp_path: Path) -> None:
    story = hospital_risk.main(tmp_path)
    assert all(report.verified for report in story.checked)
    assert len(story.over_records.charges) == len(story.importance.charges) == 1
    assert story.over_synthetic.charges == ()
    assert 0 < story.used < 0.5
    noisy = story.over_records.explanation
    assert noisy.data is not None  # the patient asks about himself; the records stay away
    assert noisy.half_widths is not None
    free = story.over_synthetic.explanation
    assert free.guarantees[0].protected.dataset == hospital_risk.DATASET
    text = hospital_risk.said(story)
    assert "verified offline" in text
    assert "free from now on" in text
    assert all(picture.stat().st_size > SMALLEST_PICTURE for picture in story.pictures)


def test_a_shop_learns_roughly_why_and_not_more(tmp_path: Path) -> None:
    story = fraud_alert.main(tmp_path)
    shown = story.named.explanation
    assert shown.data is None
    assert np.abs(shown.values).sum() == 2
    assert story.again.replayed
    assert story.again.explanation == shown
    assert "nothing was charged" in story.refused
    assert story.checked.verified
    assert any("nothing is promised about 'payments 2025'" in str(note) for note in shown.notes)
    assert "To the shop" in fraud_alert.said(story)
    assert story.picture.stat().st_size > SMALLEST_PICTURE


def test_the_files_of_the_first_hour_are_written_once(tmp_path: Path) -> None:
    script = [sys.executable, str(Path(clinics.__file__).absolute())]
    ran = subprocess.run(script, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert ran.stdout.split() == ["north.csv", "south.csv", "held-out.csv", "people.csv"]
    north = (tmp_path / "north.csv").read_text(encoding="utf-8").splitlines()
    assert len(north) == 1 + clinics.ROWS["north"]
    assert north[0] == ",".join(clinics.HEADER)
    (tmp_path / "people.csv").write_text("mine", encoding="utf-8")
    (tmp_path / "north.csv").unlink()
    with pytest.raises(FileExistsError, match=r"people\.csv: exists already; nothing was written"):
        clinics.main(tmp_path)
    assert not (tmp_path / "north.csv").exists()
    assert (tmp_path / "people.csv").read_text(encoding="utf-8") == "mine"


def test_the_files_of_the_first_hour_are_the_same_everywhere(tmp_path: Path) -> None:
    clinics.main(tmp_path)
    assert (tmp_path / "north.csv").read_text(encoding="utf-8").splitlines()[1] == FIRST


def test_the_examples_of_the_privacy_guide_print_its_figures(tmp_path: Path) -> None:
    """Or why ours differ: examples 1 and 5, and two lines of example 4."""
    noise, tracked, alerts, report, federated = privacy_guide.main(tmp_path).lines
    assert noise[0] == "Original SHAP: [0.3, -0.2, 0.5, 0.1]"
    assert "noise of scale 2.20" in noise[2]
    assert tracked[:4] == (
        "Budget consumed: 20%",
        "Budget consumed: 35%",
        "Budget consumed: 65%",
        "Budget exceeded! Remaining: 3.5",
    )
    assert tracked[4] == "A pure release of at most epsilon = 3.5 would fit"
    assert alerts == (
        "[WARNING] Privacy budget 50% consumed (5.0/10.0)",
        "[WARNING] Privacy budget 75% consumed (7.5/10.0)",
        "[CRITICAL] Privacy budget 90% consumed (9.0/10.0)",
    )
    assert report[:4] == (
        "Total Queries: 8",
        "Budget Consumed: 87%",
        "Remaining Budget: 1.3",
        "Risk Level: HIGH",
    )
    assert not any("ncrease epsilon" in line for line in report)
    assert (tmp_path / "privacy-audit.json").stat().st_size > 1_000
    assert federated[0] == "Global SHAP without noise: [[0.3, -0.2], [0.5, 0.1]]"
    assert "disjoint hospitals: epsilon = 1.00" in federated[2]
    assert "the same patients: epsilon = 3.00" in federated[3]


def test_an_explanation_goes_into_mlflow_with_its_receipt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("mlflow")
    for name in ("MLFLOW_TRACKING_URI", "MLFLOW_DISABLE_TELEMETRY", "MLFLOW_ALLOW_FILE_STORE"):
        monkeypatch.setenv(name, "true")  # remembered, so that what the example sets is undone
        monkeypatch.delenv(name)
    story = mlflow_receipts.main(tmp_path)
    assert story.verified
    assert story.explained.charges == (f"{mlflow_receipts.ACCOUNT}#1",)
    wanted = {"why.voile", "why.tlog-proof", "audit-policy.toml", "explanation.txt"}
    assert set(story.logged) == wanted
    kept = b"".join(
        each.read_bytes() for each in (tmp_path / "mlruns").rglob("*.*") if each.is_file()
    )
    records = (tmp_path / "hospital" / "records.csv").read_bytes().splitlines()
    assert len(records) > 100
    assert not any(line in kept for line in records)
