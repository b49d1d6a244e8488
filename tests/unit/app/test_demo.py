"""The main job on a small scale: what it writes is true, complete, and nothing more."""

from __future__ import annotations

import json
import shutil
import sqlite3
from pathlib import Path

import pytest
from matplotlib import image
from tests.protecting import row_of

from voile.app import demo
from voile.app.artefact import load_artefact
from voile.app.federate import NOT_FOR_RELEASE
from voile.core.errors import InvalidInput
from voile.core.explanation import Explanation
from voile.core.guarantee import Adversary
from voile.records.audit_log import Policy, verify_receipt
from voile.records.audit_log.digests import explanation_bytes
from voile.records.vault import POLICY


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> demo.Demo:
    folder = tmp_path_factory.mktemp("demo") / "not" / "there"
    return demo.run(folder, rows_per_hospital=60, distillation_steps=20)


def test_every_figure_has_its_twin_and_lies_where_it_must(result: demo.Demo) -> None:
    for figure in (result.accuracy, result.truth, result.surrogate):
        for value in (figure.private, figure.twin):
            assert -1 <= value <= 1
    assert result.truth.twin > 0.4
    assert result.surrogate.twin > 0.9


def test_the_promise_is_met_jointly_and_adding_up_says_more(result: demo.Demo) -> None:
    assert result.joint.epsilon <= demo.EPSILON
    assert result.joint.delta == pytest.approx(demo.DELTA)
    assert result.basic.epsilon > result.joint.epsilon


def test_the_patients_explanation_carries_the_joint_guarantee(result: demo.Demo) -> None:
    explanation = Explanation.load(result.explanation)
    (guarantee,) = explanation.guarantees
    assert guarantee.epsilon == result.joint.epsilon
    assert guarantee.protected == row_of(demo.NAME)
    assert Adversary.SERVER_SEEING_UPDATES in guarantee.against
    assert guarantee.computational
    assert image.imread(result.picture).shape[1] > 500


def test_the_receipt_verifies_and_another_answer_does_not(result: demo.Demo) -> None:
    policy = Policy.parse((result.folder / POLICY).read_text())
    explanation = Explanation.load(result.explanation)
    content = result.receipt.read_bytes()
    assert verify_receipt(content, policy, answer=explanation_bytes(explanation)).failed is None
    other = explanation_bytes(explanation[:, ::-1])
    assert verify_receipt(content, policy, answer=other).failed is not None


def test_twins_stay_out_of_the_artefact(result: demo.Demo) -> None:
    twins = json.loads((result.folder / NOT_FOR_RELEASE / "twins.json").read_text())
    assert twins["truth"]["twin"] == result.truth.twin
    artefact = load_artefact(result.folder / "artefact")
    shown = b"".join(p.read_bytes() for p in artefact.folder.rglob("*") if p.is_file())
    # Shares of a few thousand rows have few digits: another round may have the same by chance.
    figures = (result.accuracy, result.truth, result.surrogate)
    told_apart = [repr(figure.twin) for figure in figures if len(repr(figure.twin)) > 12]
    assert told_apart
    for twin in told_apart:
        assert twin.encode() not in shown


def test_every_client_has_charged_its_own_ledger_in_full(result: demo.Demo) -> None:
    assert len(result.clients) == 8
    for folder in (result.folder / "nodes").iterdir():
        with sqlite3.connect(folder / "log.db") as database:
            (count,) = database.execute("select count(*) from audit_leaves").fetchone()
        assert count == 21  # the opening, and ten rounds of two stages


def test_only_an_earlier_demo_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("precious")
    with pytest.raises(InvalidInput, match="not empty"):
        demo.run(tmp_path)
    assert (tmp_path / "mine.txt").read_text() == "precious"


def test_an_earlier_demo_goes_and_what_somebody_put_there_stays(
    result: demo.Demo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = {path.name for path in demo.written_into(result.folder)} | {demo.MARKER}
    assert {path.name for path in result.folder.iterdir()} <= known
    again = Path(shutil.copytree(result.folder, tmp_path / "again"))
    (again / "mine").mkdir()
    for name in ("my-notes.txt", "why.png", "mine/thesis.txt"):
        (again / name).write_text("precious")
    monkeypatch.setattr(demo, "clinic_federation", _interrupted)
    with pytest.raises(KeyboardInterrupt):
        demo.run(again)
    left = {str(path.relative_to(again)) for path in again.rglob("*")}
    assert left == {"my-notes.txt", "why.png", "mine", "mine/thesis.txt", demo.MARKER}


def _interrupted(*_: object, **__: object) -> None:
    raise KeyboardInterrupt
