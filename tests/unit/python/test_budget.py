"""`Budget`: opened on first use, reopened by a cell that runs again, and never with other terms."""

from __future__ import annotations

import copy
import os
import pickle
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from voile import Budget
from voile.app import open_records
from voile.app.explain import Answer, NoisyAnswer, Request
from voile.core.errors import BudgetExceeded, InvalidInput, Refused, StorageFault, VoileError
from voile.core.guarantee import Adversary, Guarantee, ProtectedUnit, Relation
from voile.privacy.events import Gaussian
from voile.records.ledger import PublicInput, Question
from voile.records.vault import usual_place

TERMS: dict[str, Any] = {"epsilon": 3, "delta": 1e-6}


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A notebook's folder; whatever is open is closed before it goes."""
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    open_records.close_all()


def spend(budget: Budget, question: str = "row 1", noise: float = 10.0) -> Answer:
    """An answer that is charged, on record, and stored."""
    promise = Guarantee(
        epsilon=0.2,
        delta=1e-6,
        protected=budget.protected,
        against=(Adversary.PUBLIC,),
        computational=False,
        mechanism="Gaussian noise",
        composition="one release",
    )
    asked = Question(
        account=budget.account,
        model="model",
        explainer="toy",
        level="detailed",
        parameters="{}",
        about=PublicInput(question.encode()),
    )
    request = Request(
        question=asked,
        event=Gaussian(noise),
        guarantees=(promise,),
        subject="a toy",
        purpose="trial",
        caller="analyst",
    )
    return budget.service().answer_request(request, lambda: NoisyAnswer(b"an answer"))


def test_the_first_use_makes_everything_and_says_where(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    budget = Budget("clinic 2026", **TERMS)
    assert {"voile.db", "audit.key", "replay.key", "audit-policy.toml"} <= {
        each.name for each in home.iterdir()
    }
    for secret in ("voile.db", "audit.key", "replay.key"):
        assert (home / secret).stat().st_mode & 0o077 == 0
    said = capsys.readouterr().err
    assert len(said.splitlines()) == 1
    for name in ("voile.db", "audit.key", "replay.key", "audit-policy.toml"):
        assert name in said
    assert budget.policy == home / "audit-policy.toml"
    assert (budget.account, budget.spent, budget.remaining) == ("clinic 2026", 0.0, 1.0)


def test_a_cell_that_runs_again_reopens_what_was_spent(capsys: pytest.CaptureFixture[str]) -> None:
    first = Budget("clinic 2026", **TERMS)
    spend(first)
    capsys.readouterr()
    again = Budget("clinic 2026", **TERMS)
    assert again.service() is first.service()
    assert again.spent == first.spent > 0
    assert again.spent + again.remaining == pytest.approx(1)
    assert 0 < again.epsilon_spent < 3
    assert capsys.readouterr().err == ""


def test_a_new_process_goes_on_where_the_last_one_stopped() -> None:
    with Budget("clinic 2026", **TERMS) as budget:
        spend(budget)
        spent = budget.spent
    assert Budget("clinic 2026").spent == spent


@pytest.mark.parametrize(
    ("other", "both"),
    [
        ({"epsilon": 5}, "epsilon 3 and delta 1e-06, not 5 and 1e-06"),
        ({"delta": 1e-5}, "delta 1e-06, not 3 and 1e-05"),
        ({"unit": "explained row"}, "the unit 'row', not 'explained row'"),
        ({"relation": "replace one"}, "the relation 'zero-out', not 'replace one'"),
        ({"dataset": "clinic 2025"}, "the dataset 'clinic 2026', not 'clinic 2025'"),
    ],
)
def test_other_terms_are_refused_with_both(other: dict[str, Any], both: str) -> None:
    budget = Budget("clinic 2026", **TERMS)
    with pytest.raises(InvalidInput, match=both):
        Budget("clinic 2026", **{**TERMS, **other})
    assert budget.spent == 0


def test_a_budget_that_is_not_there_needs_its_figures(home: Path) -> None:
    with pytest.raises(InvalidInput, match=r"no budget 'clinic' in voile.db yet.*epsilon=3"):
        Budget("clinic")
    assert list(home.iterdir()) == []
    Budget("other", **TERMS)
    with pytest.raises(InvalidInput, match=r"no budget 'clinic' in voile\.db yet"):
        Budget("clinic")


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"epsilon": "much"}, "epsilon: expected a number, found 'much'"),
        ({"epsilon": -1}, "epsilon: expected a number above 0, found -1"),
        ({"delta": None}, "delta: expected a number, found None; state both"),
        ({"unit": "person"}, "unit: expected one of 'row', .*found 'person'"),
        ({"unit": "explained row", "relation": "zero-out"}, "use replace one"),
        ({"database": "mysql://somewhere"}, "expected a path"),
    ],
)
def test_what_is_wrong_is_refused_before_anything_is_made(
    home: Path, wrong: dict[str, Any], message: str
) -> None:
    with pytest.raises((InvalidInput, Refused), match=message):
        Budget("clinic 2026", **{**TERMS, **wrong})
    assert list(home.iterdir()) == []


def test_records_one_by_one_need_a_stronger_relation() -> None:
    budget = Budget("callers", **TERMS, unit="explained row")
    assert budget.protected.unit is ProtectedUnit.EXPLAINED_ROW
    assert budget.protected.relation is Relation.REPLACE_ONE
    assert budget.service().vault.account("callers").is_parallel


def test_in_memory_nothing_is_kept(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Budget.in_memory("try-out", **TERMS) as budget:
        assert "nothing is kept" in capsys.readouterr().err
        assert "nothing is kept" in repr(budget)
        keys = budget.policy.parent
        spend(budget)
        assert budget.spent > 0
        assert Budget.in_memory("try-out", **TERMS).spent == 0
        with pytest.raises(InvalidInput, match="no other process can spend from it"):
            pickle.dumps(budget)
    assert not keys.exists()
    assert list(home.iterdir()) == []


def test_what_people_see(capsys: pytest.CaptureFixture[str]) -> None:
    budget = Budget("clinic <2026>", **TERMS, dataset="clinic")
    spend(budget)
    assert "used" in repr(budget)
    assert "each row of 'clinic', zero-out; in voile.db" in repr(budget)
    page = budget._repr_html_()
    assert "clinic &lt;2026&gt;" in page
    assert "% used" in page
    budget.close()
    assert repr(budget) == "Budget 'clinic <2026>', closed"
    capsys.readouterr()


def test_a_closed_budget_says_so_and_others_stay_open() -> None:
    first, second = Budget("clinic 2026", **TERMS), Budget("clinic 2026", **TERMS)
    first.close()
    first.close()
    with pytest.raises(InvalidInput, match="'clinic 2026' was closed: open it again"):
        _ = first.spent
    assert second.spent == 0
    second.close()
    assert Budget("clinic 2026", **TERMS).spent == 0


def test_a_copy_spends_from_the_same_account(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    budget = Budget("clinic 2026", **TERMS)
    assert copy.deepcopy(budget) is budget
    assert copy.copy(budget) is budget
    stored = pickle.dumps(budget)
    (home / "elsewhere").mkdir()
    monkeypatch.chdir(home / "elsewhere")  # the file is the same from wherever it is opened
    assert pickle.loads(stored).service() is budget.service()


def test_a_folder_holds_the_keys_of_one_database(home: Path) -> None:
    Budget("clinic 2026", **TERMS)
    with pytest.raises(InvalidInput, match=r"other.db: .*database='voile.db'"):
        Budget("clinic 2026", **TERMS, database="other.db")
    assert not (home / "other.db").exists()
    Budget("clinic 2026", **TERMS, database=home / "else" / "other.db")


def test_a_database_that_was_removed_is_not_made_anew_beside_its_keys(home: Path) -> None:
    budget = Budget("clinic 2026", **TERMS)
    for left in home.glob("voile.db*"):
        left.unlink()
    with pytest.raises(StorageFault, match="deleted or replaced"):
        _ = budget.spent
    with pytest.raises(InvalidInput, match="there is no such database"):
        Budget("clinic 2026", **TERMS)


def test_a_database_that_was_set_back_is_noticed(home: Path) -> None:
    with Budget("clinic 2026", **TERMS):
        pass
    old = {each.name: each.read_bytes() for each in home.glob("voile.db*")}
    with Budget("clinic 2026", **TERMS) as budget:
        spend(budget)
    for name, content in old.items():
        (home / name).write_bytes(content)
    open_records.close_all()
    with pytest.raises(VoileError, match=r"(?i)backup|does not extend|older"):
        Budget("clinic 2026", **TERMS)


@pytest.mark.parametrize("missing", [("audit-policy.toml",), ("audit-policy.toml", "audit.key")])
def test_a_start_that_was_broken_off_goes_on(
    home: Path, missing: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process was killed after the log was made, before its policy, or before its key."""

    def killed(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(open_records, "open_vault_at", killed)
        with pytest.raises(KeyboardInterrupt):
            Budget("clinic 2026", **TERMS)
    for name in missing:
        (home / name).unlink()
    assert Budget("clinic 2026", **TERMS).spent == 0


OPEN_AND_SPEND = """
import sys
sys.path.insert(0, {root!r})
from tests.unit.python.test_budget import spend
from voile import Budget
budget = Budget("clinic 2026", epsilon=3, delta=1e-6)
for number in range(5):
    spend(budget, sys.argv[1] + str(number))
print("spent")
"""


def test_two_notebooks_at_once_share_one_budget(home: Path) -> None:
    """Both open it for the first time, at the same moment; the one that is killed loses nothing."""
    root = str(Path(__file__).parents[3])
    script = OPEN_AND_SPEND.format(root=root) + "import os, signal; os.kill(os.getpid(), 9)\n"
    running = [
        subprocess.Popen(
            [sys.executable, "-u", "-c", script, name], stdout=subprocess.PIPE, cwd=home
        )
        for name in ("one", "two")
    ]
    ended = [(each.communicate(timeout=60)[0], each.returncode) for each in running]
    assert ended == [(b"spent\n", -9)] * 2
    budget = Budget("clinic 2026", **TERMS)
    assert budget.report().charges == 10
    assert not spend(budget, "three").replayed
    assert spend(budget, "one0").replayed
    assert budget.service().verify().verified


def test_a_forked_process_opens_its_own() -> None:
    budget = Budget("clinic 2026", **TERMS)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:  # nothing of the test's may run here
        try:
            said = repr(budget.spent)
        except VoileError as error:
            said = str(error)
        os.write(writer, said.encode())
        os._exit(0)
    os.waitpid(child, 0)
    assert b"opened before this process was forked" in os.read(reader, 1000)
    assert budget.spent == 0


def test_thresholds_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    budget = Budget("clinic 2026", **TERMS)
    capsys.readouterr()
    spend(budget, noise=2.0)
    assert "50 % of the privacy budget is consumed" in capsys.readouterr().err


def test_an_exhausted_budget_refuses_and_keeps_giving_what_was_paid() -> None:
    budget = Budget("clinic 2026", **TERMS)
    paid = spend(budget, noise=2.0)
    with pytest.raises(BudgetExceeded):
        spend(budget, "row 2", noise=2.0)
    again = spend(budget, noise=2.0)
    assert (again.replayed, again.content, again.charge) == (True, paid.content, paid.charge)


@pytest.mark.real
def test_a_server_by_url(
    postgres_url: str, home: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    """Its address may hold a password, and is shown nowhere."""
    budget = Budget("clinic 2026", **TERMS, database=postgres_url)
    spend(budget)
    assert (home / "replay.key").exists()
    assert not (home / "voile.db").exists()
    shown = capsys.readouterr().err + repr(budget) + budget._repr_html_()
    assert "in a PostgreSQL database" in shown
    assert postgres_url not in shown
    monkeypatch.setenv("VOILE_DATABASE", postgres_url)
    again = Budget("clinic 2026", **TERMS, database="env:VOILE_DATABASE")
    assert again.spent == budget.spent > 0
    assert pickle.loads(pickle.dumps(again)).spent == again.spent
    with pytest.raises(InvalidInput, match="not 5 and"):
        Budget("clinic 2026", epsilon=5, delta=1e-6, database=postgres_url)


def test_commands_find_the_database_of_a_notebook(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the folder of a notebook; a `log.db` that is there comes first."""
    monkeypatch.chdir(tmp_path)
    assert usual_place().database == "log.db"
    Budget("clinic", epsilon=1, delta=1e-6).close()
    assert usual_place().database == "voile.db"
    (tmp_path / "log.db").touch()
    assert usual_place().database == "log.db"


@pytest.mark.parametrize(
    ("name", "stated", "said"),
    [
        ("", TERMS, "name: must not be empty"),
        ("clinic", {"epsilon": "3", "delta": 1e-6}, "epsilon: expected a number, found '3'"),
        ("clinic", {"epsilon": True, "delta": 1e-6}, "epsilon: expected a number, found True"),
    ],
)
def test_terms_are_told_by_name(name: str, stated: dict[str, Any], said: str, home: Path) -> None:
    with pytest.raises(InvalidInput, match=said):
        Budget(name, **stated)
    assert list(home.iterdir()) == []
