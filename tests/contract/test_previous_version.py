"""Databases, receipts, explanations and an artefact of the previous version open and verify.

`stored/previous/` holds what `make.py` in it had the commands of that version write: nothing in it
may ever have to change. The keys there are for tests.
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.contract.stored.previous.make import OPEN_BACKGROUND, PUBLIC
from voile import Explanation, cli
from voile.app.artefact import load_artefact
from voile.app.federate import read_agreement

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning")

Run = Callable[..., Any]
CLIENTS = ("coast", "valley")
_FOLDER = Path(__file__).parent / "stored" / "previous"
BACKGROUND = (
    *(*PUBLIC, "--protect", "background", "--background", "customers.csv"),
    *("--account", "branch", "--epsilon", "0.4"),
)
POPULATION = (
    *("explain", "model.onnx", "customers.csv", *PUBLIC[3:]),
    *("--protect", "population", "--account", "customers", "--epsilon", "0.5"),
)
PEOPLE = (
    *(*PUBLIC, *OPEN_BACKGROUND, "--protect", "explained-row", "--account", "people"),
    *("--id-column", "id"),
)
PAID = {"background": BACKGROUND, "population": POPULATION}
RECEIPTS = {
    "background.tlog-proof": "background.voile",
    "json.tlog-proof": "background.voile",
    "parquet.tlog-proof": "background.voile",
    "population.tlog-proof": "population.voile",
    "free.tlog-proof": "free.voile",
    **{f"people.receipts/{row}.tlog-proof": f"people.receipts/{row}.voile" for row in range(3)},
    **{f"rows/{row}.row-proof": f"rows/{row}.voile" for row in range(3)},
}


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    def call(*words: str, code: int = 0) -> Any:
        with pytest.raises(SystemExit) as left:
            cli.main([*words, "--json"])
        said = capsys.readouterr()
        assert left.value.code == code, said
        return json.loads(said.out)

    return call


@pytest.fixture
def loans(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(unpacked("loans", tmp_path))
    return tmp_path


@pytest.fixture
def study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(unpacked("study", tmp_path))
    return tmp_path


def unpacked(name: str, folder: Path) -> Path:
    with zipfile.ZipFile(_FOLDER / f"{name}.zip") as packed:
        packed.extractall(folder)
    for key in folder.rglob("*.key"):  # which an archive does not know
        key.chmod(0o600)
    return folder


def refusal(said: Any) -> str:
    return str(said["error"]["message"])


@pytest.mark.usefixtures("loans")
class TestDatabase:
    def test_ledger_and_log_verify(self, run: Run) -> None:
        report = run("budget", "verify", "log.db", "--replay-key", "replay.key")
        assert {step["outcome"] for step in report["steps"][:-1]} <= {"checked", "not checkable"}
        assert {s["name"]: s["outcome"] for s in report["steps"]}["answers"] == "checked"
        shown = run("audit", "show", "log.db", "--check", "--last", "20")
        assert shown["size"] == 13
        kinds = [record["kind"] for record in shown["records"]]
        assert {kind: kinds.count(kind) for kind in kinds} == {
            "budget opened": 5,
            "release": 5,
            "refusal": 1,
            "budget renewed": 1,
            "post-processing": 1,
        }

    def test_accounts_promise_what_they_promised(self, run: Run) -> None:
        accounts = {each["account"]: each for each in run("budget", "show", "log.db")["accounts"]}
        assert accounts["people"]["unit"] == "explained row"
        assert accounts["customers"]["epsilon"] == 5
        assert accounts["branch"]["parent"] == "customers"
        assert len(accounts) == 5

    @pytest.mark.parametrize("name", PAID)
    def test_what_was_answered_is_answered_again_for_nothing(self, run: Run, name: str) -> None:
        before = Explanation.load(f"{name}.voile")
        said = run(*PAID[name], "--output", "again.voile")
        assert said["replayed"]
        assert Explanation.load("again.voile") == before
        assert run("audit", "show", "log.db")["size"] == 13

    def test_named_rows_are_answered_again_and_an_unnamed_one_is_charged(self, run: Run) -> None:
        ada, bob, unnamed = run(*PEOPLE, "--output", "again.voile")["records"]
        assert max(ada, bob) < unnamed == 13
        again, first = Explanation.load("again.voile"), Explanation.load("people.voile")
        assert np.array_equal(again.values[:2], first.values[:2])
        assert not np.array_equal(again.values[2], first.values[2])

    def test_a_new_charge_goes_on_top(self, run: Run) -> None:
        said = run(*BACKGROUND, "--redraw", "--output", "new.voile")
        assert not said["replayed"]
        assert said["records"] == [13]
        assert run("audit", "verify", "new.tlog-proof", "--answer", "new.voile")["verified"]
        run("audit", "prove", "log.db", "--from", "13", "--to", "14", "--out", "grown.txt")
        elsewhere = ("--checkpoint", "export/checkpoint.txt", "--consistency", "grown.txt")
        assert run("audit", "verify", "new.tlog-proof", *elsewhere)["verified"]
        run("budget", "verify", "log.db", "--replay-key", "replay.key")

    def test_receipts_are_written_again_for_every_answer(self, run: Run) -> None:
        """Also for one that was paid before its account was renewed, and for a free call."""
        shown = run("audit", "show", "log.db", "--last", "20")["records"]
        named = [each["charge"] for each in shown if each["kind"] == "release"]
        (call,) = [str(each["index"]) for each in shown if each["kind"] == "post-processing"]
        people = [f"people.receipts/{row}.voile" for row in range(3)]
        answers = ["background.voile", "population.voile", *people, "free.voile"]
        for charge, answer in zip([*named, call], answers, strict=True):
            run("audit", "receipt", "log.db", charge, "--out", "again.tlog-proof", "--yes")
            assert run("audit", "verify", "again.tlog-proof", "--answer", answer)["verified"]

    def test_what_was_refused_is_refused_still(self, run: Run) -> None:
        words = [*BACKGROUND[:-1], "3"]
        assert "nothing was charged" in refusal(run(*words, code=3))


@pytest.mark.usefixtures("loans")
class TestFiles:
    @pytest.mark.parametrize("receipt", RECEIPTS)
    def test_receipts_verify_offline(self, run: Run, receipt: str) -> None:
        Path("log.db").unlink()
        report = run("audit", "verify", receipt, "--answer", RECEIPTS[receipt])
        assert report["verified"]

    def test_another_answer_does_not(self, run: Run) -> None:
        words = ("audit", "verify", "background.tlog-proof", "--answer", "population.voile")
        assert not run(*words, code=4)["verified"]

    def test_the_export_verifies(self, run: Run) -> None:
        assert run("audit", "verify", "export")["verified"]

    def test_a_saved_explanation_is_written_alike(self, run: Run) -> None:
        explanation = Explanation.load("background.voile")
        assert Explanation.load(explanation.save("copy.voile")) == explanation
        proof = ("audit", "verify", "background.tlog-proof", "--answer")
        assert run(*proof, "copy.voile")["verified"]
        assert explanation.guarantees[0].protected.dataset == "customers v1"
        run(*BACKGROUND, "--output", "copy.json")
        assert json.loads(Path("copy.json").read_text()) == json.loads(
            Path("background.json").read_text()
        )


@pytest.mark.usefixtures("study")
class TestArtefact:
    def test_it_gives_the_same_figures(self, run: Run) -> None:
        run("explain", "output/artefact", "rows.csv", "--output", "again.voile")
        before, now = Explanation.load("why.voile"), Explanation.load("again.voile")
        # Sums in single precision are rounded differently by different processors.
        assert np.allclose(now.values, before.values, rtol=0, atol=1e-6)
        assert np.allclose(now.base_values, before.base_values, rtol=0, atol=1e-6)
        assert (now.guarantees, now.notes) == (before.guarantees, before.notes)
        policy = ("--policy", "output/audit-policy.toml")
        proof = ("audit", "verify", "again.tlog-proof", "--answer", "again.voile")
        assert run(*proof, *policy)["verified"]

    def test_its_receipt_and_its_logs_verify(self, run: Run) -> None:
        policy = ("--policy", "output/audit-policy.toml")
        assert run("audit", "verify", "why.tlog-proof", "--answer", "why.voile", *policy)
        for party in ("server", "coast", "valley"):
            logs = Path("output/artefact/logs", party)
            rules = ("--policy", str(logs / "audit-policy.toml"))
            assert run("audit", "verify", str(logs), *rules)["verified"]

    def test_the_books_of_all_parties_verify(self, run: Run) -> None:
        for place in ("output", "output/clients/coast", "output/clients/valley"):
            run("budget", "verify", f"{place}/log.db")

    def test_its_networks_and_its_report_are_there(self, run: Run) -> None:
        artefact = load_artefact(Path("output/artefact"))
        rows = artefact.reference[:2]
        assert artefact.model.predict(rows).shape == (2, 2)
        run("report", "output/artefact", "--output", "report.html")
        assert "study v1" in Path("report.html").read_text()

    def test_its_files_are_found_from_another_folder(self, monkeypatch: pytest.MonkeyPatch) -> None:
        artefact = load_artefact(Path("output/artefact"))
        monkeypatch.chdir("/")
        assert artefact.model.predict(artefact.reference[:2]).shape == (2, 2)
        assert (artefact.log_folder("coast") / "checkpoint.txt").exists()

    def test_a_complete_run_is_not_trained_again(self, run: Run) -> None:
        """Its single file is refused with the command that splits it, and nothing changes."""
        before = Path("output/artefact/artefact.json").read_bytes()
        charged = [run("audit", "show", f"output/clients/{name}/log.db") for name in CLIENTS]
        said = refusal(run("federate", "federation.toml", code=2))
        assert "voile init federation.toml --output FOLDER" in said
        split = run("init", "federation.toml", "--output", "split")
        assert read_agreement(Path(split["config"])).sizes.keys() == set(CLIENTS)
        assert Path("output/artefact/artefact.json").read_bytes() == before
        assert charged == [
            run("audit", "show", f"output/clients/{name}/log.db") for name in CLIENTS
        ]
