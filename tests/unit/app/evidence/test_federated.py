"""`voile evidence` for a workspace whose model was made by `voile federate`."""

from __future__ import annotations

import html
import json
from pathlib import Path
from typing import Any

import pytest
from tests.unit.app.evidence.bundles import verify_signature
from tests.unit.app.federate.test_run import write_files

from voile.app.artefact import Artefact
from voile.app.calls import handle
from voile.app.commands.evidence import CollectEvidence
from voile.app.commands.explain import Explain
from voile.app.evidence.handler import EvidenceResult
from voile.app.federate import federate, read_job

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning")


@pytest.fixture(scope="module")
def artefact(tmp_path_factory: pytest.TempPathFactory) -> Artefact:
    """It was explained once, with the workspace that the server keeps beside it."""
    made = federate(read_job(write_files(tmp_path_factory.mktemp("study")))).artefact
    home = made.folder.parent
    asked = Explain(model="readmitted", data=home / "example.csv", workspace=home / "voile.toml")
    handle(asked)
    return made


@pytest.fixture(scope="module")
def collected(artefact: Artefact, tmp_path_factory: pytest.TempPathFactory) -> EvidenceResult:
    folder = tmp_path_factory.mktemp("out") / "evidence"
    command = CollectEvidence(folder=folder, workspace=artefact.folder.parent / "voile.toml")
    result = handle(command)
    assert isinstance(result, EvidenceResult)
    return result


@pytest.fixture(scope="module")
def card(collected: EvidenceResult) -> str:
    return (collected.folder / "model-card-artefact.md").read_text()


def line(result: EvidenceResult, key: str) -> dict[str, Any]:
    (found,) = (each for d in result.documents for each in d.lines if each.key == key)
    return found.to_dict()


def test_nothing_was_in_the_way(collected: EvidenceResult) -> None:
    assert collected.remarks == []
    assert [each.made_by for each in collected.models] == ["voile federate"]
    assert len(collected.decisions) == 1


def test_the_card_has_the_figures_with_their_bounds(card: str, artefact: Artefact) -> None:
    _, head, _ = card.split("---\n", 2)
    header = dict(each.split(": ", 1) for each in head.splitlines())
    told = artefact.figures["quality"]["black box"]["figures"]
    metrics = json.loads(header["metrics"])
    assert {each["name"]: each["value"] for each in metrics} == {
        name: each["figure"] for name, each in told.items()
    }
    assert f"{told['AUC']['low']:.3f} to {told['AUC']['high']:.3f}" in card
    (privacy,) = json.loads(header["differential_privacy"])
    assert privacy["epsilon"] == artefact.guarantees[0].epsilon


def test_the_card_says_what_is_wrong_with_the_model(card: str, artefact: Artefact) -> None:
    assert artefact.alarms()
    assert all(f"- {each}" in card for each in artefact.alarms())


def test_the_rounds_are_on_record_and_what_was_charged_stands_elsewhere(
    collected: EvidenceResult, card: str
) -> None:
    made = line(collected, "annex-iv.2a")
    assert made["standing"] == "present"
    assert "artefact: voile federate" in made["found"]
    assert [each["text"] for each in made["links"]] == ["record 0", "record 5"]
    records = html.unescape((collected.folder / "records.html").read_text())
    assert "Record 5: federation round" in records
    assert "- records in the log: rounds from 0 to 5; what was charged is in other logs" in card
    accuracy = line(collected, "annex-iv.2g.artefact")
    assert (accuracy["standing"], accuracy["found"]) == ("missing", "Another log paid for it.")


def test_its_signature_verifies(collected: EvidenceResult, artefact: Artefact) -> None:
    bundle, key = (collected.folder / name for name in ("model-artefact.sig", "model-signing.pub"))
    assert verify_signature(artefact.folder, bundle.read_bytes(), key.read_bytes()) == ""
    assert "model-artefact.sig" in (collected.folder / "model-signing.note").read_text()


def test_a_log_without_its_rounds_says_that_others_hold_them(
    artefact: Artefact, tmp_path: Path
) -> None:
    from tests.unit.app.workspace import examples as workspaces

    workspaces.started(tmp_path)
    (tmp_path / "model").symlink_to(artefact.folder)
    found = handle(CollectEvidence(folder=tmp_path / "evidence", workspace=tmp_path))
    made = line(found, "annex-iv.2a")
    assert made["standing"] == "missing"
    assert made["found"].startswith("Other logs hold the records of model:")
