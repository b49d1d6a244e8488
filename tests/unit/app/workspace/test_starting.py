"""Beginning a workspace: tried first, then made, and never over existing files."""

from __future__ import annotations

import shlex
import tomllib
from pathlib import Path
from typing import Any

import pytest
from tests.unit.app.workspace.examples import (
    MODEL,
    PROMISE,
    free_spec,
    private_spec,
    started,
    write_files,
)

from voile import cli
from voile.app.notebook import open_workspace
from voile.app.workspace import AccountTable, start_workspace
from voile.app.workspace import starting as starting_module
from voile.core.errors import InvalidInput, Refused, VoileError
from voile.core.guarantee import Relation
from voile.records.ledger import Calendar, policy_of

MADE = {"voile.toml", "log.db", "audit.key", "replay.key", "audit-policy.toml", "example.csv"}


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_everything_that_the_next_command_needs_is_made(tmp_path: Path) -> None:
    done = started(tmp_path / "study")
    home = tmp_path / "study"
    assert names(home) >= MADE
    assert (done.file, done.release, done.costs) == (home / "voile.toml", "approval", True)
    assert (home / "audit.key").stat().st_mode & 0o777 == 0o600
    with open_workspace(home) as workspace:
        account = workspace.service.vault.account("customers v1")
        assert (account.epsilon, account.delta) == (5.0, 1e-5)
        assert account.protected.relation is Relation.BLANK_ONE
        assert workspace.preview("approval", done.example).guarantees
        assert workspace.service.verify().verified


def test_what_is_written_is_what_was_asked(tmp_path: Path) -> None:
    spec = private_spec(
        write_files(tmp_path), epsilon=0.25, level="summary", role="user", output_name="approved"
    )
    start_workspace(spec, PROMISE, folder=tmp_path, name='it\'s "mine"', origin="example.org/x")
    with open_workspace(tmp_path) as workspace:
        (name,) = workspace.releases
        found = workspace.file.spec(name)
    assert name == 'it\'s "mine"'
    assert found == spec.model_copy(update={"account": "customers v1"})
    content = tomllib.loads((tmp_path / "voile.toml").read_text())
    assert content["origin"] == "example.org/x"
    assert content["backgrounds"][name] == {"file": "customers.csv"}, "paths are relative"


def test_free_explanations_have_no_account(tmp_path: Path) -> None:
    done = start_workspace(free_spec(write_files(tmp_path)), folder=tmp_path)
    assert (done.release, done.costs) == ("SCORE", False)
    with open_workspace(tmp_path) as workspace:
        assert workspace.explain("SCORE", done.example).charges == ()
        assert "free" in repr(workspace)
    assert "accounts" not in tomllib.loads(done.file.read_text())


def test_of_people_each_pays_for_itself(tmp_path: Path) -> None:
    spec = free_spec(write_files(tmp_path), protect="explained-row", id_column="id")
    done = start_workspace(spec, PROMISE, folder=tmp_path)
    with open_workspace(tmp_path) as workspace:
        account = workspace.service.vault.account("customers v1")
        assert account.is_parallel
        assert account.protected.relation is Relation.REPLACE_ONE
        assert len(workspace.explain("SCORE", done.example).charges) == 1


def test_a_stated_account_may_differ_in_everything(tmp_path: Path) -> None:
    spec = private_spec(write_files(tmp_path), account="harbour")
    table = AccountTable(dataset="c", relation=Relation.REPLACE_ONE, epsilon=2, delta=1e-6)
    start_workspace(spec, table, folder=tmp_path)
    with open_workspace(tmp_path) as workspace:
        assert workspace.service.vault.account("harbour").protected == table.protected


def test_rules_stand_in_the_file_and_are_compared(tmp_path: Path) -> None:
    spec = private_spec(write_files(tmp_path))
    start_workspace(spec, PROMISE | {"renew": "monthly", "cool_down": 48}, folder=tmp_path)
    path = tmp_path / "voile.toml"
    text = path.read_text()
    assert 'renew = "monthly"' in text
    with open_workspace(tmp_path) as workspace:
        vault = workspace.service.vault
        policy = vault.storage.read_snapshot(lambda t: policy_of(t, "customers v1"))
        assert (policy.renew, policy.cool_down) == (Calendar.MONTHLY, 48.0)
    path.write_text(text.replace('"monthly"', '"yearly"'))
    with pytest.raises(InvalidInput, match=r"the ledger knows these rules for it: .*monthly"):
        open_workspace(tmp_path)
    path.write_text(text.replace('"monthly"', '"sometimes"'))
    with pytest.raises(InvalidInput, match="renew"):
        open_workspace(tmp_path)


# --- nothing is made before everything can be -----------------------------------------------------

CANNOT: dict[str, tuple[dict[str, Any], dict[str, Any] | None, type[VoileError], str]] = {
    "no account": ({}, None, InvalidInput, "say what the account promises"),
    "an account for nothing": (
        {"protect": "training", "background_origin": "public"},
        PROMISE,
        InvalidInput,
        "costs nothing",
    ),
    "an unknown figure": ({}, PROMISE | {"epsilom": 1}, InvalidInput, r"epsilom: .* 'epsilon'\?"),
    "a figure out of range": ({}, PROMISE | {"delta": 2.0}, InvalidInput, "delta"),
    "half a promise": ({}, {"dataset": "x", "epsilon": 1.0}, InvalidInput, "delta: is missing"),
    "no such model": ({"model": "absent.onnx"}, PROMISE, InvalidInput, "no such model"),
    "no such object": ({"model": f"{MODEL}X"}, PROMISE, InvalidInput, "no object"),
    "no origin": (
        {"model_origin": None},
        PROMISE,
        InvalidInput,
        "say what the model was trained on",
    ),
    "no schema": ({"schema": None}, PROMISE, InvalidInput, "no schema given"),
    "no background": ({"background": None}, PROMISE, InvalidInput, "background rows"),
    "a role too low": ({"level": "granular", "role": "analyst"}, PROMISE, Refused, "role"),
    "an answer dearer than the budget": (
        {"epsilon": None, "noise": 0.02},
        PROMISE | {"epsilon": 1.0},
        Refused,
        r"one answer needs more than the whole budget .* nothing was written: it would fit with "
        r"noise = 0\.05 or epsilon = 1 of one release \(`voile init --noise`\)",
    ),
    "a row dearer than the budget": (
        {"protect": "explained-row", "background_origin": "public", "top": 1, "epsilon": 9.0},
        PROMISE | {"epsilon": 1.0},
        Refused,
        "it would fit with epsilon = 0.5 of one release",
    ),
    "a model of these rows": (
        {"model_origin": "trained-on:customers v1"},
        PROMISE,
        Refused,
        "customers v1",
    ),
}


@pytest.mark.parametrize("case", CANNOT)
def test_what_cannot_be_done_leaves_nothing_behind(tmp_path: Path, case: str) -> None:
    changes, promise, kind, said = CANNOT[case]
    write_files(tmp_path)
    before = names(tmp_path)
    with pytest.raises(kind, match=said):
        start_workspace(private_spec(tmp_path, **changes), promise, folder=tmp_path)
    assert names(tmp_path) == before


def test_what_was_advised_can_be_asked_for(tmp_path: Path) -> None:
    files = write_files(tmp_path)
    words = ["init", MODEL, "--schema", files / "loans.toml", "--model-origin", "public"]
    words += ["--protect", "background", "--background", files / "customers.csv"]
    words += ["--dataset", "v1", "--epsilon", 5, "--delta", 1e-5, "--noise", 0.1]
    with pytest.raises(SystemExit, match="0"):
        cli.main([*map(str, words), "--output", str(tmp_path)])
    with open_workspace(tmp_path) as workspace:
        assert workspace.file.spec("SCORE").noise == 0.1
        assert workspace.explain("SCORE", tmp_path / "example.csv").charges


def test_the_file_says_how_an_answer_becomes_cheaper(tmp_path: Path) -> None:
    spec = free_spec(write_files(tmp_path), protect="explained-row")
    text = start_workspace(spec, PROMISE, folder=tmp_path).file.read_text()
    under = text.partition("[releases.SCORE]")[2]
    changed = text.replace("# noise = 0.05", "noise = 0.05")
    assert "# noise = 0.05" in under
    assert "# epsilon = 0.5" in under
    assert tomllib.loads(changed)["releases"]["SCORE"]["noise"] == 0.05


def test_a_password_is_refused_before_anybody_is_asked(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="do not put a password") as refused:
        started(tmp_path / "study", storage="postgresql://ada:hidden@127.0.0.1:1/x")
    assert "hidden" not in str(refused.value)
    assert names(tmp_path / "study").isdisjoint(MADE)


def test_a_workspace_is_not_overwritten(tmp_path: Path) -> None:
    started(tmp_path)
    text = (tmp_path / "voile.toml").read_text()
    with pytest.raises(InvalidInput, match=r"voile\.toml: exists already"):
        started(tmp_path, name="other")
    assert (tmp_path / "voile.toml").read_text() == text


def test_a_link_into_nothing_is_not_written_through(tmp_path: Path) -> None:
    (tmp_path / "voile.toml").symlink_to(tmp_path / "target")
    with pytest.raises(InvalidInput, match="exists already"):
        started(tmp_path)
    assert not (tmp_path / "target").exists()


def test_a_link_keeps_its_own_name(tmp_path: Path) -> None:
    """It may point to another file tomorrow."""
    store, home = tmp_path / "store", tmp_path / "study"
    for folder in (store, home):
        folder.mkdir()
    write_files(home)
    (home / "customers.csv").rename(store / "v7.csv")
    (home / "customers.csv").symlink_to(store / "v7.csv")
    start_workspace(private_spec(home), PROMISE, folder=home)
    content = tomllib.loads((home / "voile.toml").read_text())
    assert [each["file"] for each in content["backgrounds"].values()] == ["customers.csv"]
    (store / "v7.onnx").touch()
    (home / "risk.onnx").symlink_to(store / "v7.onnx")
    spec = private_spec(home, model=str(home / "risk.onnx"))
    assert starting_module._name_of(spec, None) == "risk"


def test_a_file_called_like_the_example_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "example.csv").write_text("mine")
    started(tmp_path)
    assert (tmp_path / "example.csv").read_text() == "mine"


# --- what is there already ------------------------------------------------------------------------


def test_a_start_that_was_broken_off_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise InterruptedError

    for owner, name in ((starting_module, "open_vault_at"), (starting_module, "replace_file")):
        with monkeypatch.context() as patched:
            patched.setattr(owner, name, broken)
            with pytest.raises(InterruptedError):
                started(tmp_path)
        assert not (tmp_path / "voile.toml").exists()
    key = (tmp_path / "audit.key").read_bytes()
    started(tmp_path)
    assert (tmp_path / "audit.key").read_bytes() == key
    with open_workspace(tmp_path) as workspace:
        assert workspace.service.vault.storage.submit(workspace.service.vault.log.head).size == 1


def test_a_log_that_is_there_is_used_under_its_own_name(tmp_path: Path) -> None:
    started(tmp_path, origin="example.org/mine")
    (tmp_path / "voile.toml").unlink()
    with pytest.raises(InvalidInput, match=r"the log here is 'example\.org/mine', not 'other'"):
        started(tmp_path, origin="other")
    started(tmp_path, name="second")
    with open_workspace(tmp_path) as workspace:
        assert workspace.file.tables.origin == "example.org/mine"


def test_an_account_that_is_open_already_is_compared(tmp_path: Path) -> None:
    started(tmp_path)
    (tmp_path / "voile.toml").unlink()
    spec = private_spec(tmp_path)
    with pytest.raises(InvalidInput, match="is open already: the ledger knows it with epsilon 5"):
        start_workspace(spec, PROMISE | {"epsilon": 7.0}, folder=tmp_path)
    assert not (tmp_path / "voile.toml").exists()


def test_a_second_budget_for_the_same_rows_is_the_ledgers_to_refuse(tmp_path: Path) -> None:
    started(tmp_path)
    (tmp_path / "voile.toml").unlink()
    with pytest.raises(VoileError, match="customers v1"):
        start_workspace(private_spec(tmp_path, account="fresh"), PROMISE, folder=tmp_path)


def test_the_command_that_is_told_opens_the_account(tmp_path: Path) -> None:
    """`voile budget open`, word for word."""
    started(tmp_path)
    file = tmp_path / "voile.toml"
    more = '\n[accounts."the people"]\ndataset = "people v1"\nunit = "explained row"\n'
    file.write_text(
        file.read_text() + more + 'relation = "replace one"\nepsilon = 4\ndelta = 1e-6\n'
    )
    with pytest.raises(InvalidInput, match="this account is not open") as refused:
        open_workspace(tmp_path)
    words = shlex.split(str(refused.value).partition("open it with: ")[2])
    with pytest.raises(SystemExit) as left:
        cli.main(words[1:])
    assert left.value.code == 0
    with open_workspace(tmp_path) as workspace:
        assert workspace.service.vault.account("the people").is_parallel


def test_a_declared_number_of_records_is_written_down(tmp_path: Path) -> None:
    promise = {**PROMISE, "records_per_person": 2}
    start_workspace(private_spec(write_files(tmp_path)), promise, folder=tmp_path)
    (account,) = tomllib.loads((tmp_path / "voile.toml").read_text())["accounts"].values()
    assert account["records_per_person"] == 2
    with open_workspace(tmp_path) as workspace:
        (stated,) = workspace.file.tables.accounts.values()
    assert stated.records_per_person == 2


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"records_per_person": 0}, "greater than or equal to 1"),
        ({"records_per_person": 2.0}, "valid integer"),
        ({"records_per_person": True}, "valid integer"),
        ({"records_per_person": 2, "unit": "user"}, "does not count rows"),
    ],
)
def test_a_number_of_records_that_means_nothing_is_refused(
    changes: dict[str, Any], said: str
) -> None:
    with pytest.raises(ValueError, match=said):
        AccountTable(**{**PROMISE, **changes})
