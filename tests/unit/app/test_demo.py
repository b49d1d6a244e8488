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
    return demo.run(folder, rows_per_hospital=60)


def test_every_model_is_judged_where_the_truth_is_known(result: demo.Demo) -> None:
    private, network, constant, truth = result.judged.values()
    for each in (private, network, constant, truth):
        assert 0 <= each.auc <= 1
        assert each.log_loss > 0
    assert truth.auc > max(private.auc, constant.auc)
    assert constant.auc == 0.5
    assert truth.log_loss < constant.log_loss
    assert truth.cosine == pytest.approx(1.0)
    assert constant.cosine is None
    assert private.cosine is not None
    assert private.cosine < 1


def test_the_promise_is_for_each_patient_toward_a_server_that_sees_sums(result: demo.Demo) -> None:
    promised = result.guarantee
    assert 0 < promised.epsilon <= demo.EPSILON
    assert promised.delta == pytest.approx(demo.DELTA)
    assert Adversary.SERVER_SEEING_SUMS in promised.against
    assert Adversary.SERVER_SEEING_UPDATES not in promised.against
    assert promised.computational


def test_the_patients_explanation_carries_the_joint_guarantee(result: demo.Demo) -> None:
    explanation = Explanation.load(result.explanation)
    (guarantee,) = explanation.guarantees
    assert guarantee == result.guarantee
    assert guarantee.protected == row_of(demo.NAME)
    assert explanation.standard_errors is not None
    assert image.imread(result.picture).shape[1] > 500


def test_the_receipt_verifies_and_another_answer_does_not(result: demo.Demo) -> None:
    policy = Policy.parse((result.folder / POLICY).read_text())
    explanation = Explanation.load(result.explanation)
    content = result.receipt.read_bytes()
    assert verify_receipt(content, policy, answer=explanation_bytes(explanation)).failed is None
    other = explanation_bytes(explanation[:, ::-1])
    assert verify_receipt(content, policy, answer=other).failed is not None


def test_what_is_known_of_invented_data_only_stays_out_of_the_artefact(result: demo.Demo) -> None:
    kept = json.loads((result.folder / NOT_FOR_RELEASE / demo.COMPARISON).read_text())
    assert list(kept) == list(result.judged)
    artefact = load_artefact(result.folder / "artefact")
    shown = b"".join(p.read_bytes() for p in artefact.folder.rglob("*") if p.is_file())
    for each in kept.values():
        if each["cosine"] not in (None, 1.0):
            assert repr(each["cosine"]).encode() not in shown


def test_every_client_has_charged_its_own_ledger_in_full(result: demo.Demo) -> None:
    assert len(result.clients) == 8
    for folder in (result.folder / "nodes").iterdir():
        with sqlite3.connect(folder / "log.db") as database:
            (count,) = database.execute("select count(*) from audit_leaves").fetchone()
        assert count == 7  # the opening, and of three rounds the charge and what was shown


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
