"""The benchmark of the audit log, on a small log."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks import audit_log


def test_proofs_are_made_and_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_log, "SIZES", (10, 20))
    figures = audit_log.growth(tmp_path)
    assert [figure.what for figure in figures[1::3]] == [
        "10^1 records: check it offline",
        "10^1 records: check it offline",
    ]
    assert all(figure.ours > 0 for figure in figures)
