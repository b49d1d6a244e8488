"""Artefacts that earlier versions wrote: they load, say what they said, and are reported on."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.support.pages import report_html

from voile.app.artefact import Artefact, load_artefact
from voile.app.report import check_log, importance
from voile.federation.arrays import digest_of_arrays
from voile.training import arrays_of

STORED = Path(__file__).parent / "artefact_without_calibration"
"""By logistic regression, with one party; written before models were calibrated."""


@pytest.fixture(scope="module")
def old() -> Artefact:
    return load_artefact(STORED)


def test_a_model_that_was_not_calibrated_predicts_as_it_did(old: Artefact) -> None:
    said = np.asarray(old.predict(old.reference[:2]))
    assert said[:, 1] == pytest.approx([0.6638272404670715, 0.11139018833637238], abs=1e-6)
    assert digest_of_arrays(old.trained) == old.settings["arrays"]["logistic regression"]
    saved = arrays_of(old.network.network)
    assert all(np.array_equal(old.trained[name], saved[name]) for name in saved)


def test_it_is_explained_reported_on_and_verified(old: Artefact) -> None:
    shown = importance(old)
    assert shown is not None
    assert shown.explanation.guarantees == old.guarantees
    page = report_html(old)
    assert "calibrated on" not in page
    assert "log-loss" not in page, "nothing was measured that it could show"
    assert all(check_log(old, party).failed is None for party in ("server", "city"))
