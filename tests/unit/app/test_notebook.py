"""Explanations by name, as a notebook asks for them."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.unit.app.workspace.examples import free_spec, started, write_files

import voile
from voile.app.calls import handle
from voile.app.commands.explain import Explain
from voile.app.commands.fields import RenamedWarning
from voile.app.explain import ReleasedExplanation, RowsToExplain
from voile.app.notebook import Workspace, open_workspace
from voile.app.workspace import start_workspace
from voile.core.errors import BudgetExceeded, InvalidInput, VoileError
from voile.records.audit_log import verify_receipt


@pytest.fixture
def home(tmp_path: Path) -> Path:
    started(tmp_path)
    return tmp_path


@pytest.fixture
def workspace(home: Path) -> Any:
    with open_workspace(home) as opened:
        yield opened


ROWS: dict[str, list[Any]] = {"income": [3, 9], "debt": [6, 1], "employed": ["no", "yes"]}


@pytest.mark.parametrize(
    "rows",
    [
        pytest.param(lambda home: str(home / "applicants.csv"), id="file"),
        pytest.param(lambda home: home / "applicants.csv", id="path"),
        pytest.param(lambda _: ROWS, id="columns"),
        pytest.param(lambda _: pytest.importorskip("pandas").DataFrame(ROWS), id="frame"),
        pytest.param(lambda _: np.array([[3.0, 6.0, 0.0], [9.0, 1.0, 1.0]]), id="array"),
        pytest.param(lambda _: RowsToExplain(np.array([[3.0, 6, 0], [9, 1, 1]])), id="rows"),
    ],
)
def test_rows_come_in_any_form_and_are_the_same_question(
    home: Path, workspace: Workspace, rows: Any
) -> None:
    first = workspace.explain("approval", home / "applicants.csv")
    again = workspace.explain("approval", rows(home))
    assert first.charges == again.charges == ("customers v1#1",)
    assert not first.replayed
    assert again.replayed
    assert again.explanation == first.explanation


def test_a_notebook_shows_what_was_missing_and_what_is_useless(workspace: Workspace) -> None:
    explained = workspace.explain("approval", {**ROWS, "debt": [6, None]})
    assert explained._repr_html_().count("missing (1 was filled in)") == 1
    warned = replace(explained, model_alarms=("It is <useless>.",))
    alarm = '<p class="alarm"><b>Do not use it as it is.</b> It is &lt;useless&gt;.'
    assert f'<div class="voile">{alarm}' in warned._repr_html_()
    assert repr(warned).startswith("Do not use it as it is. It is <useless>.\n")


def test_it_shows_what_it_has_and_what_was_paid(workspace: Workspace) -> None:
    assert workspace.releases == ("approval",)
    assert "approval: protects background rows, paid by 'customers v1'" in repr(workspace)
    explained = workspace.explain("approval", ROWS)
    assert isinstance(explained, ReleasedExplanation)
    shown = repr(explained).splitlines()
    assert shown[0] == "Explanation"
    assert shown[-1] == "  charged: customers v1#1; record 1"
    again = repr(workspace.explain("approval", ROWS)).splitlines()[-1]
    assert again == "  answered before, not charged again: customers v1#1; record 1"


def test_a_preview_charges_nothing(home: Path, workspace: Workspace) -> None:
    one, two = workspace.preview("approval"), workspace.preview("approval", ROWS)
    assert two == workspace.preview("approval", home / "applicants.csv")
    assert two.guarantees[0].epsilon > one.guarantees[0].epsilon
    assert workspace.explain("approval", ROWS).charges == ("customers v1#1",)


def test_a_preview_of_new_noise_tells_its_price(workspace: Workspace) -> None:
    workspace.explain("approval", ROWS)
    assert "answered before" in workspace.preview("approval", ROWS).remarks[-1]
    assert "fits: uses" in workspace.preview("approval", ROWS, redraw=True).remarks[-1]


def test_what_no_renewal_can_pay_for_is_refused_with_what_fits(
    home: Path, workspace: Workspace
) -> None:
    assert not any("would fit" in each for each in workspace.preview("approval", ROWS).remarks)
    file = home / "voile.toml"
    file.write_text(file.read_text().replace("epsilon = 0.5\n", "epsilon = 9.0\n"))
    advice = "it would fit with noise = 0.01 or epsilon = 2 of one release (under [releases.NAME]"
    with open_workspace(home) as changed:
        assert advice in changed.preview("approval", ROWS).remarks[-1]
        with pytest.raises(BudgetExceeded) as refused:
            changed.explain("approval", ROWS)
    assert advice in str(refused.value)
    assert "Renewing does not help" in str(refused.value)
    assert "voile budget renew" not in str(refused.value)


def test_a_receipt_proves_a_charge(workspace: Workspace) -> None:
    explained = workspace.explain("approval", ROWS, caller="ward 3", purpose="review")
    receipt = workspace.receipt(explained.charges[0])
    policy = workspace.service.vault.policy
    assert verify_receipt(bytes(receipt), policy, answer=explained.entries[0].answer).verified


def test_the_budget_ends(workspace: Workspace) -> None:
    def until_it_is_refused() -> None:
        while True:
            workspace.explain("approval", ROWS, redraw=True)

    with pytest.raises(BudgetExceeded):
        until_it_is_refused()


def test_a_model_and_its_release_are_built_once(workspace: Workspace) -> None:
    workspace.explain("approval", ROWS)
    (job,) = workspace._known.values()
    loaded, built = job.inputs(None), dict(job._built)
    workspace.explain("approval", {name: column[:1] for name, column in ROWS.items()})
    assert list(workspace._known.values()) == [job]
    assert job.inputs(None) is loaded
    assert {key: id(made) for key, made in job._built.items()} == {
        key: id(made) for key, made in built.items()
    }


def test_people_are_named_by_a_column(tmp_path: Path) -> None:
    spec = free_spec(
        write_files(tmp_path), protect="explained-row", model_origin="public", id_column="id"
    )
    promise = {"dataset": "people v1", "epsilon": 9.0, "delta": 1e-5}
    start_workspace(spec, promise, folder=tmp_path, name="person")
    with open_workspace(tmp_path) as workspace:
        explained = workspace.explain("person", ROWS | {"id": ["ada", "bob"]})
        assert len(explained.charges) == 2
        assert workspace.explain("person", tmp_path / "applicants.csv").replayed
        with pytest.raises(InvalidInput, match="identifiers from the column 'id'"):
            workspace.explain("person", np.zeros((1, 3)))
        named = RowsToExplain(np.zeros((1, 3)), identifiers=["eve"])
        assert len(workspace.explain("person", named).charges) == 1


def test_a_population_is_built_for_its_size(tmp_path: Path) -> None:
    said = {"protect": "population", "model_origin": "public", "noise": 0.05}
    spec = free_spec(write_files(tmp_path), **said)
    promise = {"dataset": "customers v1", "epsilon": 9.0, "delta": 1e-5}
    start_workspace(spec, promise, folder=tmp_path, name="importance")
    with open_workspace(tmp_path) as workspace:
        all_of_them = workspace.explain("importance", tmp_path / "customers.csv")
        assert len(all_of_them.explanation) == 1
        few, many = (workspace.preview("importance", count) for count in (160, 400))
        assert few.guarantees[0].epsilon > many.guarantees[0].epsilon, "the noise level is stated"


# --- twice, elsewhere, and after the end ----------------------------------------------------------


def test_the_same_workspace_twice_is_one_ledger(home: Path) -> None:
    with open_workspace(home) as one, open_workspace(home / "voile.toml") as two:
        first = one.explain("approval", ROWS)
        one.close()
        again = two.explain("approval", ROWS)
        assert again.charges == first.charges
        assert again.replayed


def test_it_is_the_same_from_any_folder_and_stays_where_it_is(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(home)
    with voile.open_workspace() as workspace:
        (home / "elsewhere").mkdir()
        monkeypatch.chdir("elsewhere")
        first = workspace.explain("approval", "../applicants.csv")
    with voile.open_workspace("..") as workspace:
        assert workspace.explain("approval", "../applicants.csv").charges == first.charges
    assert list(Path().iterdir()) == []


def test_closing_signs_what_was_added(home: Path) -> None:
    with open_workspace(home) as workspace:
        workspace.explain("approval", ROWS)
    assert (home / "audit.checkpoint").read_text().splitlines()[1] == "2"


def test_closed_it_says_so_and_charges_nothing(home: Path) -> None:
    workspace = open_workspace(home)
    workspace.explain("approval", ROWS)
    workspace.close()
    workspace.close()  # again is harmless
    with pytest.raises(VoileError, match="closed"):
        workspace.explain("approval", ROWS, redraw=True)
    with open_workspace(home) as again:
        assert again.explain("approval", ROWS, redraw=True).charges == ("customers v1#2",)


def test_closed_in_use_every_call_is_answered_or_refused(home: Path) -> None:
    workspace = open_workspace(home)
    workspace.explain("approval", ROWS)
    outcomes: list[ReleasedExplanation | VoileError] = []

    def ask(income: int) -> None:
        try:
            outcomes.append(workspace.explain("approval", ROWS | {"income": [income, income]}))
        except VoileError as error:
            outcomes.append(error)

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    workspace.close()
    for thread in threads:
        thread.join()
    answered = [each for each in outcomes if isinstance(each, ReleasedExplanation)]
    assert len(outcomes) == 4
    with open_workspace(home) as again:
        assert again.service.verify().verified
        later = again.explain("approval", ROWS, redraw=True)
    assert later.charges == (f"customers v1#{len(answered) + 2}",), "charged is what was answered"


# --- what the file says is compared with what the database holds ----------------------------------


def changed(home: Path, old: str, new: str) -> None:
    file = home / "voile.toml"
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("epsilon = 5.0", "epsilon = 50.0", "with epsilon 5 and delta 1e-05, not 50 and 1e-05"),
        ("delta = 1e-05", "delta = 0.1", "not 5 and 0.1"),
        ('dataset = "customers v1"', 'dataset = "v2"', "the dataset 'customers v1', not 'v2'"),
        ('"zero-out"', '"replace one"', "the relation 'zero-out', not 'replace one'"),
        ('unit = "row"', 'unit = "user"', "the unit 'row', not 'user'"),
        ('origin = "voile.invalid/approval"', 'origin = "x"', "this is the log of 'voile.inv"),
    ],
)
def test_nothing_in_the_file_is_believed(home: Path, old: str, new: str, said: str) -> None:
    changed(home, old, new)
    with pytest.raises(InvalidInput) as refused:
        open_workspace(home)
    assert said in str(refused.value)
    assert "voile.toml:" in str(refused.value)


def test_a_database_that_is_not_there_is_not_made(home: Path) -> None:
    changed(home, 'storage = "log.db"', 'storage = "other.db"')
    with pytest.raises(InvalidInput, match="no such database"):
        open_workspace(home)
    assert not (home / "other.db").exists()


def test_the_address_from_the_environment_is_never_shown(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changed(home, 'storage = "log.db"', 'storage = "env:VOILE_DATABASE"')
    monkeypatch.setenv("VOILE_DATABASE", str(home / "log.db"))
    with open_workspace(home) as workspace:
        assert "log.db" not in repr(workspace)
    changed(home, '[accounts."customers v1"]', '[accounts."second"]')
    changed(home, 'account = "customers v1"', 'account = "second"')
    with pytest.raises(InvalidInput, match=r'voile budget open "\$VOILE_DATABASE" second ') as told:
        open_workspace(home)
    assert "log.db" not in str(told.value)


@pytest.mark.real
def test_a_server_whose_address_stands_in_the_environment(
    tmp_path: Path, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file holds the variable's name; keys and policy lie beside it."""
    monkeypatch.setenv("VOILE_DATABASE", postgres_url)
    started(tmp_path / "home", storage="env:VOILE_DATABASE")
    assert postgres_url not in (tmp_path / "home" / "voile.toml").read_text()
    assert (tmp_path / "home" / "audit.key").exists()
    with open_workspace(tmp_path / "home") as workspace:
        assert workspace.explain("approval", ROWS).charges == ("customers v1#1",)
        assert postgres_url not in repr(workspace)
    with open_workspace(tmp_path / "home") as again:
        assert again.explain("approval", ROWS).replayed
        assert again.service.verify().verified


def test_a_known_release_refuses_what_its_file_decides(home: Path, workspace: Workspace) -> None:
    workspace.explain("approval", ROWS)
    stated = Explain(model="approval", data=ROWS, workspace=home, epsilon=0.01)
    with pytest.raises(InvalidInput, match="takes this from"):
        handle(stated, workspace._context)


def test_former_keywords_do_the_same(workspace: Workspace) -> None:
    workspace.explain("approval", ROWS)
    with pytest.warns(RenamedWarning) as told:
        found = workspace.explain("approval", ROWS, by="ward 3", fresh=True)
    assert [str(each.message).partition(";")[0] for each in told] == [
        "by is now called caller",
        "fresh is now called redraw",
    ]
    assert not found.replayed
    with pytest.warns(RenamedWarning):
        former = workspace.preview("approval", ROWS, by="ward 3", fresh=True)
    assert former == workspace.preview("approval", ROWS, caller="ward 3", redraw=True)
    with pytest.raises(TypeError, match="freshly"):
        workspace.explain("approval", ROWS, freshly=True)
