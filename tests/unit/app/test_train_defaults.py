"""`voile train data.csv --label y --epsilon 1`: what is found, made and never guessed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.unit.app.training_examples import table, write_csv
from tests.unit.release.statistics.examples import SCHEMA

from voile.app.calls import Context, handle
from voile.app.commands.audit import StartLog
from voile.app.commands.budget import OpenBudget, ShowBudgets, VerifyBudgets
from voile.app.commands.fields import RenamedWarning
from voile.app.commands.train import Train
from voile.core.errors import BudgetExceeded, InvalidInput
from voile.core.schema import Feature, Schema


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_csv(tmp_path / "data.csv", table(600))
    (tmp_path / "data.toml").write_text(SCHEMA.dumps())
    return tmp_path


def train(**stated: Any) -> Any:
    said: list[str] = []
    asked = Train.read({"rows": "data.csv", "label": "ill", "epsilon": 1.0, **stated})
    return handle(asked, Context(say=said.append)), said


def accounts() -> dict[str, tuple[float, float, float]]:
    shown = handle(ShowBudgets(database="log.db"))
    return {each.account: (each.epsilon, each.delta, each.consumed) for each in shown}


# --- who pays -------------------------------------------------------------------------------------


def test_the_first_model_opens_an_account_of_its_size(home: Path) -> None:
    result, (said,) = train()
    assert result.new == ("data#1", "data#2", "data#3")
    assert result.trained.folder == Path("model")
    assert result.trained.guarantee.epsilon == pytest.approx(1)
    assert result.trained.guarantee.protected.dataset == "data"
    assert "account 'data' was opened in log.db for epsilon = 1, delta = 1e-06" in said
    assert "audit.key and replay.key (secret: back them up)" in said
    assert {"audit.key", "audit-policy.toml", "log.db"} <= {each.name for each in home.iterdir()}
    ((epsilon, delta, consumed),) = accounts().values()
    assert (epsilon, delta) == (1, 1e-6)
    assert consumed == pytest.approx(1)
    assert handle(VerifyBudgets(database="log.db")).verified


def test_the_same_line_again_is_free_and_another_is_refused() -> None:
    train()
    again, said = train()
    assert again.new == ()
    assert said == []
    with pytest.raises(BudgetExceeded):
        train(epsilon=0.5, folder="other")


def test_a_preview_makes_nothing(home: Path) -> None:
    before = sorted(each.name for each in home.iterdir())
    found, said = train(preview=True)
    assert "fits: uses 100.0% of account 'data'" in str(found.preview)
    assert said == []
    assert sorted(each.name for each in home.iterdir()) == before


def test_many_rows_have_a_smaller_delta() -> None:
    from voile.app.train_defaults import _terms

    command = Train.read({"rows": "data.csv", "epsilon": 1.0})
    assert _terms(command, 600)["delta"] == 1e-6
    assert _terms(command, 10**6)["delta"] == pytest.approx(1e-7)


def test_the_only_account_pays_at_its_own_delta() -> None:
    open_accounts("people")
    result, said = train()
    assert result.trained.charges[0] == "people#1"
    assert result.trained.guarantee.delta == 1e-5
    assert said == []


def test_of_several_accounts_one_must_be_named() -> None:
    open_accounts("people", "others")
    with pytest.raises(InvalidInput, match="say which account pays with --account; over rows"):
        train()
    assert train(account="others")[0].trained.charges[0] == "others#1"


def test_an_account_is_never_opened_beside_others() -> None:
    open_accounts()
    with pytest.raises(InvalidInput, match="over rows there is none"):
        train()
    assert accounts() == {}


def open_accounts(*names: str) -> None:
    handle(StartLog(database="log.db", origin="example.org/people"))
    for name in names:
        terms = {"account": name, "dataset": name, "epsilon": 3.0, "delta": 1e-5}
        handle(OpenBudget.read({"database": "log.db", **terms}))


# --- the schema -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["data.toml", "schema.toml"])
def test_the_schema_is_found_beside_the_rows(home: Path, name: str) -> None:
    (home / "data.toml").rename(home / name)
    assert train(preview=True)[0].count == 600


def test_without_a_schema_one_to_fill_in_is_written_from_the_header(home: Path) -> None:
    (home / "data.toml").unlink()
    with pytest.raises(InvalidInput, match=r"schema\.toml was written with your columns: fill it"):
        train()
    text = (home / "schema.toml").read_text()
    assert "[features.age]" in text
    assert 'name = "ill"' in text
    assert "north" not in text, "not one value was read"
    assert not (home / "log.db").exists()
    with pytest.raises(InvalidInput):  # nothing is filled in yet
        train()
    assert (home / "schema.toml").read_text() == text


def test_a_label_must_be_a_column(home: Path) -> None:
    (home / "data.toml").unlink()
    with pytest.raises(InvalidInput, match=r"--label 'sick': data\.csv has no such column"):
        train(label="sick")
    assert not (home / "schema.toml").exists()


def test_rows_without_a_file_have_no_schema_beside_them() -> None:
    with pytest.raises(InvalidInput, match="no schema: name it with --schema"):
        train(rows=table(10))


def test_a_column_of_the_schema_becomes_the_label(home: Path) -> None:
    assert SCHEMA.label is not None
    whole = (*SCHEMA.features, Feature("ill", SCHEMA.label.domain))
    (home / "data.toml").write_text(Schema("people", whole).dumps())
    result, _ = train()
    assert result.trained.schema.label == SCHEMA.label
    assert result.trained.schema.feature_names == SCHEMA.feature_names
    (home / "data.toml").write_text(replace(SCHEMA, label=None).dumps())
    with pytest.raises(InvalidInput, match="two classes or more, or a number"):
        train()


def test_the_former_word_for_the_label_works() -> None:
    with pytest.warns(RenamedWarning):
        command = Train.read({"rows": "data.csv", "epsilon": 1.0, "target": "ill"})
    assert command.label == "ill"


# --- a first use that is broken off ---------------------------------------------------------------


@pytest.mark.parametrize(
    "step",
    [
        "voile.app.log_start.open_storage",
        "voile.records.audit_log.keys.SigningKey.save",
        "voile.app.log_start.create_file",
        "voile.app.train_defaults.start_log",
        "voile.app.train_defaults.handle",
    ],
)
def test_the_same_line_goes_on_with_it(
    step: str, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as broken:
        broken.setattr(step, killed)
        with pytest.raises(KeyboardInterrupt):
            train()
    result, said = train()
    assert result.new == ("data#1", "data#2", "data#3")
    assert any("account 'data' was opened" in line for line in said)
    assert len(accounts()) == 1
    assert handle(VerifyBudgets(database="log.db")).verified
    assert not (home / "log.first-use").exists()
    assert train()[0].new == ()
