"""`verify`: true for what was recorded, an error with the step for anything else."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import voile
from tests.unit.python.people import SCHEMA, people, quick
from voile.app import open_records
from voile.core.errors import InvalidInput, UnreadableFile, VerificationFailed


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """Two explanations of one budget, and their receipts."""
    home = tmp_path_factory.mktemp("verify")
    budget = voile.Budget("clinic 2026", epsilon=3, delta=1e-6, database=home / "voile.db")
    make: Any = voile.Explainer
    explainer = make(
        quick(), people(100), protect="background", schema=SCHEMA, budget=budget,
        model_origin="public", epsilon=0.2,
    )  # fmt: skip
    found: dict[str, Any] = {"home": home, "policy": budget.policy}
    for name, rows in (("one", people(1, seed=1)), ("two", people(2, seed=2))):
        found[name] = why = explainer(rows)
        why.save(home / f"{name}.voile")
        why.receipt.save(home / f"{name}.tlog-proof")
    yield found
    open_records.close_all()


def test_what_was_recorded_is_verified(saved: dict[str, Any]) -> None:
    home = saved["home"]
    found = voile.verify(home / "one.voile", home / "one.tlog-proof", policy=saved["policy"])
    assert found
    assert repr(found).startswith("Verified: one.voile")
    assert "✓ inclusion" in repr(found)
    assert "Verified" in found._repr_html_()
    assert bytes(saved["one"].receipt).startswith(b"c2sp.org/tlog-proof@v1")


def test_an_explanation_need_not_be_saved(saved: dict[str, Any]) -> None:
    receipt = saved["home"] / "two.tlog-proof"
    assert voile.verify(saved["two"], receipt, policy=saved["policy"])
    with pytest.raises(InvalidInput, match="found a int"):
        voile.verify(3, receipt, policy=saved["policy"])  # type: ignore[arg-type]


def test_another_explanation_fails(saved: dict[str, Any]) -> None:
    home = saved["home"]
    with pytest.raises(VerificationFailed, match=r"step 9, answer: .*not the one"):
        voile.verify(home / "one.voile", home / "two.tlog-proof", policy=saved["policy"])
    with pytest.raises(InvalidInput, match="the receipt is for one row"):
        voile.verify(home / "two.voile", home / "one.tlog-proof", policy=saved["policy"])
    with pytest.raises(VerificationFailed, match="answer"):
        voile.verify(saved["two"][0], home / "two.tlog-proof", policy=saved["policy"])


def test_a_receipt_that_was_changed_fails(saved: dict[str, Any], tmp_path: Path) -> None:
    home = saved["home"]
    forged = tmp_path / "forged.tlog-proof"
    lines = (home / "one.tlog-proof").read_text().splitlines(keepends=True)
    forged.write_text("".join(lines[:-1]) + lines[-1][:-9] + "AAAAAAA=\n")
    with pytest.raises(VerificationFailed, match="step"):
        voile.verify(home / "one.voile", forged, policy=saved["policy"])


def test_the_policy_of_somebody_else_fails(saved: dict[str, Any], tmp_path: Path) -> None:
    home = saved["home"]
    other = voile.Budget("other", epsilon=1, delta=1e-6, database=tmp_path / "voile.db")
    with pytest.raises(VerificationFailed, match=r"log signature|policy|checkpoint"):
        voile.verify(home / "one.voile", home / "one.tlog-proof", policy=other.policy)


def test_files_that_are_not_there(saved: dict[str, Any]) -> None:
    home, policy = saved["home"], saved["policy"]
    with pytest.raises(UnreadableFile, match=r"no\.voile"):
        voile.verify(home / "no.voile", home / "one.tlog-proof", policy=policy)
    with pytest.raises(UnreadableFile, match=r"no\.tlog-proof"):
        voile.verify(home / "one.voile", home / "no.tlog-proof", policy=policy)
    with pytest.raises(InvalidInput, match=r"no\.toml: no signing policy found.*policy="):
        voile.verify(home / "one.voile", home / "one.tlog-proof", policy=home / "no.toml")


def test_a_receipt_overwrites_nothing_that_is_needed(saved: dict[str, Any]) -> None:
    home = saved["home"]
    for needed in ("voile.db", "audit.key", "replay.key", "audit-policy.toml"):
        before = (home / needed).read_bytes() if needed != "voile.db" else b""
        with pytest.raises(InvalidInput):
            saved["one"].receipt.save(home / needed)
        assert needed == "voile.db" or (home / needed).read_bytes() == before
