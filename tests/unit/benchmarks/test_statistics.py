"""The benchmark of private statistics, on little data."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path

import pytest
from benchmarks import statistics
from benchmarks.harness import Figure

from voile.datasets import clinic_federation


def test_a_peer_that_is_missing_keeps_its_stored_figure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(statistics, "RESULTS", tmp_path)
    for name in ("interpret", "interpret.privacy", "diffprivlib", "diffprivlib.models"):
        monkeypatch.setitem(sys.modules, name, None)
    kept = Figure(statistics.EBM, "s", 1.0, 4.0, 0.25)
    (tmp_path / "statistics.json").write_text(json.dumps({"figures": [asdict(kept)]}), "utf-8")
    plain, *others = statistics.fits(clinic_federation(40).together())
    assert plain.ours > 0
    assert others == [kept]
    assert capsys.readouterr().out.count("skipped") == 2


def test_rows_of_a_second_are_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statistics, "EXPLAINED", 800)
    model = statistics._fit(clinic_federation(100).together())
    raw, codes, full = statistics.explanations(model)
    assert [figure.target is None for figure in (raw, codes, full)] == [False, False, True]
    assert raw.ours < codes.ours
    assert statistics._rate("a", 5.0, 6.0).met is False


def test_a_federation_over_the_secure_sum(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statistics, "PARTIES", 8)
    monkeypatch.setattr(statistics, "THRESHOLD", 6)
    assert statistics.federation().ours > 0
