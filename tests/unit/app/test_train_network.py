"""A network from one table: paid for as one chain, explained at no cost, believed by its ledger."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.unit.app.training_examples import DELTA, asked, table, write_csv, write_people
from tests.unit.release.statistics.examples import SCHEMA

from voile import open_workspace
from voile.app.artefact_manifest import file_digest
from voile.app.assess import find_subject
from voile.app.calls import Context, handle
from voile.app.commands.audit import StartLog
from voile.app.commands.budget import ShowBudgets, VerifyBudgets
from voile.app.commands.explain import Explain
from voile.app.commands.federate import WriteReport
from voile.app.commands.workspace import Start
from voile.app.model_files import BLACK_BOX
from voile.app.train import TrainedModelResult
from voile.app.trained_folder import check_paid
from voile.app.trained_model import load_trained_model
from voile.app.trained_network import TrainedNetwork
from voile.core.errors import BudgetExceeded, InvalidInput, Refused, VerificationFailed
from voile.core.schema import Label, Numbers
from voile.pipelines.score_table import PrivateScoreTable
from voile.records.vault import Place, open_vault_at

CHARGES = ("people#1", "people#2")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return write_people(tmp_path, 400)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> TrainedNetwork:
    folder = write_people(tmp_path_factory.mktemp("people"), 1500)
    result = handle(network(folder, held_out=str(folder / "open.csv")))
    assert isinstance(result.trained, TrainedNetwork)
    return result.trained


def network(home: Path, **changes: Any) -> Any:
    return asked(home, model="network", **changes)


def used(home: Path) -> float:
    (account,) = handle(ShowBudgets(database=str(home / "log.db")))
    return float(account.consumed)


# --- paying ---------------------------------------------------------------------------------------


def test_it_is_charged_once_and_given_again_bit_for_bit(home: Path) -> None:
    first: TrainedModelResult = handle(network(home))
    again: TrainedModelResult = handle(network(home, folder=home / "other", caller="another"))
    assert first.new == CHARGES
    assert again.new == ()
    assert "given again" in again.made_from
    files = [(home / folder / BLACK_BOX).read_bytes() for folder in ("model", "other")]
    assert files[0] == files[1]
    assert handle(VerifyBudgets(database=str(home / "log.db"))).verified


def test_the_account_is_charged_what_the_guarantee_says(tmp_path: Path) -> None:
    home = write_people(tmp_path, 300, epsilon=1.5)
    made = handle(network(home, epsilon=1.5)).trained
    assert made.guarantee.epsilon == pytest.approx(1.5, rel=2e-3)  # two orders share delta
    assert made.guarantee.epsilon <= 1.5
    assert used(home) == pytest.approx(1.0, rel=1e-6)
    with pytest.raises(BudgetExceeded):
        handle(network(home, epsilon=0.1, folder=home / "other", sure=True))


@pytest.mark.parametrize("terms", [{"orders": (4.0, 8.0, 16.0)}, {"relation": "replace one"}])
def test_other_measures_and_relations_pay_as_well(tmp_path: Path, terms: dict[str, Any]) -> None:
    made = handle(network(write_people(tmp_path, 300, **terms), sure=True)).trained
    assert 0 < made.guarantee.epsilon <= 2.0


def test_a_new_network_is_paid_for_again(home: Path) -> None:
    handle(network(home))
    spent = used(home)
    redrawn = handle(network(home, redraw=True, overwrite=True))
    assert redrawn.new == ("people#3", "people#4")
    assert used(home) == pytest.approx(2 * spent)


def test_broken_off_nothing_was_charged(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def draw(self: Any, rows: Any = None) -> Any:  # noqa: ARG001
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(PrivateScoreTable, "draw", draw)
        with pytest.raises(KeyboardInterrupt):
            handle(network(home))
    assert used(home) == 0
    assert not (home / "model").exists()


def test_statistics_and_a_network_are_two_questions(home: Path) -> None:
    handle(asked(home))
    with pytest.raises(InvalidInput, match="holds another model"):
        handle(network(home))
    made = handle(network(home, overwrite=True))
    assert len(made.new) == 2
    assert not (home / "model" / "curves.json").exists()


# --- before ---------------------------------------------------------------------------------------


def test_a_preview_says_what_to_expect_of_both_ways_and_charges_nothing(home: Path) -> None:
    said = str(handle(network(home, preview=True, held_out=str(home / "open.csv"))).preview)
    assert "guarantee: (ε = 2, δ = 1e-5) for each row of 'people 1'" in said
    assert "a network with 64 hidden units, 160 steps over all rows" in said
    assert "noise for each unit of signal 0.1" in said
    assert "of the accuracy that a plain model gains over a constant answer" in said
    assert "expected accuracy of the black box: 0." in said
    assert "with --model statistics: signal 83" in said
    assert "fits: uses 29" in said
    assert used(home) == 0


def test_too_much_noise_is_said_before_anything_is_spent(tmp_path: Path) -> None:
    home = write_people(tmp_path, 40)
    said = str(handle(network(home, preview=True, epsilon=0.5)).preview)
    assert "Too much noise for so few rows" in said
    with pytest.raises(InvalidInput, match=r"Too much noise.*Pass --yes to confirm"):
        handle(network(home, epsilon=0.5))
    assert handle(network(home, epsilon=0.5, sure=True)).new == CHARGES


def test_a_network_has_no_curves(home: Path) -> None:
    with pytest.raises(InvalidInput, match="a network has none"):
        handle(network(home, plot=home / "curves.png"))
    assert used(home) == 0


def test_progress_is_told(home: Path) -> None:
    told: list[tuple[int, int]] = []
    handle(network(home), Context(steps=lambda done, of: told.append((done, of))))
    assert told == [(done, 10) for done in range(1, 11)]


@pytest.mark.parametrize("damage", ["ill", "age"])
def test_nothing_in_protected_rows_is_ever_told(home: Path, damage: str) -> None:
    columns = {name: list(cells) for name, cells in table(400).items()}
    columns[damage][7] = "SECRET-7"
    write_csv(home / "rows.csv", columns)
    told: list[str] = []
    result = handle(network(home), Context(say=told.append))
    written = [path.read_bytes() for path in (home / "model").iterdir()]
    assert not any(b"SECRET" in content for content in written)
    assert "SECRET" not in repr((told, result.to_dict()))


# --- what is made ---------------------------------------------------------------------------------


def test_charged_figures_agree_with_those_on_open_rows(trained: TrainedNetwork) -> None:
    charged, measured = (trained.quality[name]["figures"] for name in ("charged", "held_out"))
    for name in ("log-loss", "AUC"):
        one, other = charged[name], measured[name]
        assert max(one["low"], other["low"]) < min(one["high"], other["high"]), name
    assert measured["AUC"]["figure"] > 0.65
    assert measured["log-loss"]["figure"] < measured["log-loss"]["baseline"] + 0.02


def test_it_is_read_as_it_was_written(trained: TrainedNetwork) -> None:
    found = load_trained_model(trained.folder)
    assert isinstance(found, TrainedNetwork)
    rows = table(5, seed=3)
    assert found.predict(rows).tolist() == trained.predict(rows).tolist()
    same = ("guarantee", "charges", "events", "plan", "reference_invented", "used_features")
    assert all(getattr(found, name) == getattr(trained, name) for name in same)
    assert not found.reference_invented
    (trained.folder / "extra").touch()
    (trained.folder / "extra").unlink()


def test_explanations_are_free_and_carry_the_joint_guarantee(trained: TrainedNetwork) -> None:
    spent = used(trained.folder.parent)
    home = str(trained.folder.parent / "log.db")
    asks = {"model": str(trained.folder), "data": table(4, seed=5), "database": home}
    found = handle(Explain.read(asks)).explained
    assert found.charges == ()
    assert found.explanation.guarantees == (trained.guarantee,)
    said = trained.predict(table(4, seed=5))[:, 1]
    total = found.explanation.base_values[:, 0] + found.explanation.values[:, :, 0].sum(axis=1)
    assert total == pytest.approx(said, abs=1e-6)
    assert used(trained.folder.parent) == spent


def test_a_workspace_opens_it_and_trains_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(write_people(tmp_path, 300))
    made = handle(network(tmp_path, folder=Path("model"))).trained
    handle(Start.read({"source": ["model"], "name": "illness"}))
    with open_workspace() as workspace:
        found = workspace.explain("illness", table(2))
        terms: dict[str, Any] = {"account": "people", "epsilon": 1.0, "delta": DELTA}
        other = workspace.train(
            table(300, seed=2), schema=SCHEMA, output="other", model="network", redraw=True, **terms
        )
    assert found.explanation.guarantees == (made.guarantee,)
    assert isinstance(other, TrainedModelResult)
    assert len(other.new) == 2


def test_a_report_says_what_was_charged(trained: TrainedNetwork) -> None:
    page = handle(WriteReport(artefact=trained.folder)).path.read_text()
    for words in ("score table", "people#1", "the ledger beside this folder confirms", "held out"):
        assert words in page.replace("The ledger", "the ledger"), words
    assert "curves" not in page.partition("How good it is")[0]


def test_its_releases_are_assessed(trained: TrainedNetwork) -> None:
    subject = find_subject(trained.folder)
    assert [trial.name for trial in subject.trials][:2] == ["network", "score table"]
    assert [trial.event for trial in subject.trials][:2] == list(trained.events)
    assert subject.left_out == ()


def test_of_a_number_open_rows_are_the_only_measure(tmp_path: Path) -> None:
    home = write_people(tmp_path, 300)
    schema = replace(SCHEMA, label=Label("ill", Numbers(0.0, 4.0)))
    (home / "people.toml").write_text(schema.dumps())
    for name, count in (("rows.csv", 300), ("open.csv", 200)):
        columns = table(count, seed=count)
        write_csv(home / name, {**columns, "ill": [each / 25 for each in columns["age"]]})
    made = handle(network(home, held_out=str(home / "open.csv"), sure=True)).trained
    assert made.charges == CHARGES[:1]
    assert made.quality["charged"] is None
    assert "mean absolute error" in made.quality["held_out"]["figures"]
    assert 0 <= made.predict(table(3)).min() <= made.predict(table(3)).max() <= 4
    page = handle(WriteReport(artefact=made.folder)).path.read_text()
    assert "mean absolute error" in page


# --- compared with the ledger ---------------------------------------------------------------------


def test_damage_is_found(trained: TrainedNetwork, tmp_path: Path) -> None:
    folder = copied(trained, tmp_path)
    content = bytearray((folder / BLACK_BOX).read_bytes())
    content[-1] ^= 1
    (folder / BLACK_BOX).write_bytes(content)
    with pytest.raises(VerificationFailed, match="changed or deleted"):
        load_trained_model(folder)


@pytest.mark.parametrize("what", ["guarantee", "budget", "charges", "rule", "quality", "schema"])
def test_a_forged_folder_is_not_believed(
    trained: TrainedNetwork, tmp_path: Path, what: str
) -> None:
    folder = copied(trained, tmp_path)
    head = json.loads((folder / "model.json").read_text())
    forge(folder, head, what)
    (folder / "model.json").write_text(json.dumps(head))
    database = str(trained.folder.parent / "log.db")
    with pytest.raises((Refused, VerificationFailed)) as told:
        handle(Explain.read({"model": str(folder), "data": table(1), "database": database}))
    assert "its guarantee is not repeated" in str(told.value)


def forge(folder: Path, head: dict[str, Any], what: str) -> None:
    """Files whose digests were computed anew."""
    if what == "budget":
        head["budget"]["rows"] = 10**6
    elif what == "charges":
        head["charges"] = ["people#2", "people#1"]
    elif what == "rule":
        head["rule"] = "network/0"
    elif what == "schema":
        schema = replace(SCHEMA, name="other people")
        rewrite(folder, head, "schema.toml", schema.dumps())
    else:
        name = {"guarantee": "guarantees.json", "quality": "quality.json"}[what]
        content = json.loads((folder / name).read_text())
        if what == "quality":
            content["charged"]["figures"]["AUC"]["figure"] = 0.999
        else:
            content["guarantees"][0]["epsilon"] /= 10
        rewrite(folder, head, name, json.dumps(content))


def rewrite(folder: Path, head: dict[str, Any], name: str, content: str) -> None:
    (folder / name).write_text(content)
    head["files"][name] = file_digest(folder / name)


def copied(trained: TrainedNetwork, tmp_path: Path) -> Path:
    folder = tmp_path / "copy"
    folder.mkdir()
    for path in trained.folder.iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    return folder


def test_other_parameters_are_not_believed(trained: TrainedNetwork) -> None:
    """Those of another run, though all else is as it was paid for."""
    moved = {name: array + np.float32(0.01) for name, array in trained.trained.items()}
    database = str(trained.folder.parent / "log.db")
    with open_vault_at(Place.within(Path(database).parent), signing=None) as vault:
        check_paid(vault, trained)
        for other in (
            replace(trained, trained=moved),
            replace(trained, network=trained.plan.model(trained.trained)),
        ):
            with pytest.raises(Refused, match="its guarantee is not repeated"):
                check_paid(vault, other)


def test_elsewhere_somebody_must_say_that_a_folder_is_trusted(
    trained: TrainedNetwork, tmp_path: Path
) -> None:
    handle(StartLog(database=str(tmp_path / "log.db"), origin="example.org/elsewhere"))
    asks = {"model": str(trained.folder), "data": table(1), "database": str(tmp_path / "log.db")}
    with pytest.raises(Refused, match=r"--model-origin .*guarantees\.json"):
        handle(Explain.read(asks))
    stated = {"model_origin": str(trained.folder / "guarantees.json")}
    found = handle(Explain.read({**asks, **stated})).explained
    assert found.explanation.guarantees[0].delta == DELTA
