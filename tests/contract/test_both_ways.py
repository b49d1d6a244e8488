"""Every command by command line and from Python: the same result, files, records and charges.

A command that is in `HANDLERS` and has no case here makes the suite fail.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
import pytest

from tests.unit.app import training_examples as training
from tests.unit.app.workspace import examples as workspaces
from tests.unit.cli.test_explain import PUBLIC_ROWS, prepared
from tests.unit.recommenders import examples as shops
from voile import cli, open_workspace
from voile.app import demo
from voile.app.assess import run as assessing
from voile.app.calls import HANDLERS, Context, handle
from voile.app.commands.assess import Assess
from voile.app.commands.audit import (
    AcceptCheckpoint,
    AnchorLog,
    CompleteReceipts,
    ExportLog,
    IssueReceipt,
    NewAnchorAccount,
    ProveRecord,
    ShowLog,
    SignCheckpoint,
    StartLog,
    VerifyProof,
)
from voile.app.commands.budget import (
    ApproveCharge,
    BudgetHistory,
    ForecastBudget,
    ListApprovals,
    OpenBudget,
    PlanBudget,
    RenewBudget,
    ReportBudget,
    RequestCharge,
    SetBudgetPolicy,
    ShowBudgets,
    VerifyBudgets,
)
from voile.app.commands.evidence import CollectEvidence
from voile.app.commands.explain import Explain
from voile.app.commands.fields import Command, field_extra, option_of
from voile.app.commands.recommend import ExplainRecommendation, Recommend, TrainRecommender
from voile.app.commands.train import Train
from voile.app.commands.workspace import CheckSchema, ProposeSchema, RunDemo, ShowSchema, Start
from voile.app.demo import Demo, JudgedModel
from voile.assess.assessment import AssessedClaim, Verdict
from voile.cli import commands as door
from voile.core.errors import VerificationFailed
from voile.core.guarantee import Adversary, Guarantee, Protected

__all__ = ["prepared"]
pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning")
Fields: TypeAlias = dict[str, Any]
ROOT: Final = Path(__file__).parents[2]

ELSEWHERE: Final[Mapping[str, str]] = {
    "Federate": "tests/unit/app/test_federations.py",
    "ShowFederationStatus": "tests/unit/app/test_federations.py",
    "StopFederation": "tests/unit/app/test_federations.py",
    "MakeServerKey": "tests/unit/app/test_federations.py",
    "WriteReport": "tests/unit/app/test_federations.py",
    "JoinFederation": "tests/unit/app/federate/test_join.py",
    "ShowNodeStatus": "tests/unit/app/federate/test_join.py",
    "MakeNodeKeys": "tests/unit/app/federate/test_join.py",
    "ServeWitness": "tests/unit/cli/test_audit.py",
    "Serve": "tests/unit/server/test_running.py",
    "AddKey": "tests/unit/app/test_keys.py",
    "ListKeys": "tests/unit/app/test_keys.py",
    "ExportDashboard": "tests/unit/app/dashboard/test_export.py",
    "RevokeKey": "tests/unit/app/test_keys.py",
    **dict.fromkeys(
        ("CheckRules", "ShowRules", "PutRules", "LiftMeasure", "SendAlerts"),
        "tests/unit/app/test_rules.py",
    ),
    "EraseAnswers": "tests/unit/app/test_erasure.py",
    "Backup": "tests/unit/app/test_backups.py",
    "Restore": "tests/unit/app/test_backups.py",
    "StartTestbed": "tests/unit/app/testbed/test_handler.py",
    "StopTestbed": "tests/unit/app/testbed/test_handler.py",
}
"""Commands that are compared by a test of their own, and where that is."""

VARIES: Final = frozenset(
    {"values", "base_values", "top", "alarms"}  # noise
    | {"quality", "used_features", "without_influence"}  # of a model with noise
    | {"root", "log_key", "address", "note", "record", "detail", "call"}  # nonces and keys
    | {"findings", "digest"}  # of what varies
    | {"time", "exhausted_at", "hourly_rate", "hourly_share"}  # when
)
"""Of these only kind and shape are compared: they differ from call to call."""


@dataclass(frozen=True)
class Case:
    """A command, the words it is typed with before its fields, and the folder it runs in.

    Args:
        home: the fixture of that folder; each way runs in a copy.
        refused: the error that both ways end with.
        code: exit code of a command that is not refused.
        prepare: is called in each copy first.
    """

    command: Command
    typed: str
    home: str = "loans"
    refused: str | None = None
    code: int = 0
    prepare: Callable[[], object] = field(default=lambda: None)


def stated(kind: type[Command], **fields: Any) -> Command:
    return kind.read(fields)


LOG: Final[Fields] = {"database": "log.db"}
MODEL: Final[Fields] = {
    "schema": "loans.toml",
    "model_origin": "public",
    "background": "customers.csv",
    "protect": "background",
}
ASKED: Final[Fields] = {
    "model": "tests.unit.cli.test_explain:SCORE",
    "data": "applicants.csv",
    "account": "customers",
    **MODEL,
}
FREE: Final[Fields] = MODEL | {"background": "public.csv", "background_origin": "public"}
ROOT_ACCOUNT: Final[Fields] = {**LOG, "dataset": "clinic v1", "epsilon": 1.0, "delta": 1e-5}
TRAINED: Final[Fields] = {"model": "made", "interactions": "lines.csv"}
TRAIN: Final[Fields] = {
    "catalogue": "items.csv",
    "interactions": "lines.csv",
    "account": "users",
}
LEARN: Final[Fields] = {
    "rows": "rows.csv",
    "schema": "people.toml",
    "account": "people",
    "epsilon": 2.0,
    "delta": 1e-5,
}
PROMISE: Final[Fields] = {"dataset": "customers v2", "epsilon": 5.0, "delta": 1e-5}
STARTED: Final[Fields] = {
    "source": ["tests.unit.cli.test_explain:SCORE"],
    **MODEL,
    **PROMISE,
}


def lose_checkpoint() -> None:
    Path("audit.checkpoint").unlink()


def damage_receipt() -> None:
    path = Path("why.tlog-proof")
    path.write_text(path.read_text().replace("index ", "index 1"))


CASES: Final[Mapping[str, Case]] = {
    "explain": Case(
        Explain.read({**ASKED, "epsilon": 0.4, "save_as": "e.json", "caller": "ward 3"}), "explain"
    ),
    "explain, preview": Case(Explain.read({**ASKED, "epsilon": 0.4, "preview": True}), "explain"),
    "explain, at no cost": Case(
        Explain.read(
            {**ASKED, **FREE, "protect": "training", "account": None}
            | {"model_origin": "training.json", "output_range": (0.0, 1.0)}
        ),
        "explain",
    ),
    "explain, by a method": Case(
        Explain.read({**ASKED, **FREE, "protect": "training", "account": None, "method": "lime"}),
        "explain",
    ),
    "explain, by a method without a bound": Case(
        Explain.read({**ASKED, "epsilon": 0.4, "method": "lime"}), "explain", refused="Refused"
    ),
    "explain, over budget": Case(
        Explain.read({**ASKED, "epsilon": 9.0}), "explain", refused="BudgetExceeded"
    ),
    "explain, over a file": Case(
        Explain.read({**ASKED, "save_as": "why.voile"}), "explain", refused="InvalidInput"
    ),
    "train a recommender": Case(
        TrainRecommender.read({**TRAIN, "epsilon": 1.0, "delta": 1e-6, "folder": "again"}),
        "recommend train",
        "shop",
    ),
    "train another recommender of the same moments": Case(
        TrainRecommender.read(
            {**TRAIN, "epsilon": 2.0, "delta": 1e-6, "folder": "factors", "model": "mf"}
        ),
        "recommend train",
        "shop",
    ),
    "train a network from an account that cannot hold it": Case(
        TrainRecommender.read(
            {**TRAIN, "epsilon": 1.0, "delta": 1e-6, "folder": "network", "model": "ncf"}
        ),
        "recommend train",
        "shop",
        refused="Refused",
    ),
    "train a recommender, over budget": Case(
        TrainRecommender.read({**TRAIN, "epsilon": 9.0, "delta": 1e-6, "folder": "dear"}),
        "recommend train",
        "shop",
        refused="BudgetExceeded",
    ),
    "train": Case(
        Train.read(
            {**LEARN, "folder": "model", "held_out": "open.csv", "label": "ill", "epsilon": 1.5}
        ),
        "train",
        "people",
    ),
    "train again": Case(Train.read({**LEARN, "folder": "made"}), "train", "people"),
    "train, preview": Case(
        Train.read({**LEARN, "folder": "model", "preview": True}), "train", "people"
    ),
    "train, over budget": Case(
        Train.read({**LEARN, "folder": "dear", "epsilon": 9.0}),
        "train",
        "people",
        refused="BudgetExceeded",
    ),
    "train, too little signal": Case(
        Train.read({**LEARN, "folder": "noise", "epsilon": 0.01}),
        "train",
        "people",
        refused="InvalidInput",
    ),
    "explain a trained model": Case(
        Explain.read({"model": "made", "data": "open.csv", "save_as": "e.json"}),
        "explain",
        "people",
    ),
    "recommend": Case(
        Recommend.read({**TRAINED, "user": "7", "count": 3}), "recommend list", "shop"
    ),
    "explain a recommendation": Case(
        ExplainRecommendation.read(
            {**TRAINED, "user": "7", "audience": "others", "group_by": "genre", "account": "users"}
            | {"epsilon": 0.5, "top": 1}
        ),
        "recommend explain",
        "shop",
    ),
    "explain a recommendation, refused": Case(
        ExplainRecommendation.read(
            {**TRAINED, "user": "7", "audience": "others", "account": "users", "epsilon": 0.5}
        ),
        "recommend explain",
        "shop",
        refused="Refused",
    ),
    "start a log": Case(
        stated(StartLog, database="new/log.db", origin="example.org/new"),
        "audit init",
        prepare=lambda: Path("new").mkdir(),
    ),
    "show a log": Case(stated(ShowLog, **LOG, last=3, check=True), "audit show"),
    "export a log": Case(stated(ExportLog, **LOG, folder="export"), "audit export"),
    "sign": Case(stated(SignCheckpoint, **LOG, out="signed.txt"), "audit checkpoint"),
    "accept a checkpoint": Case(
        stated(AcceptCheckpoint, **LOG, reason="disk replaced", sure=True),
        "audit accept-checkpoint",
        prepare=lose_checkpoint,
    ),
    "accept a checkpoint unasked": Case(
        stated(AcceptCheckpoint, **LOG, reason="disk replaced"),
        "audit accept-checkpoint",
        refused="InvalidInput",
        prepare=lose_checkpoint,
    ),
    "complete receipts": Case(
        stated(CompleteReceipts, **LOG, receipts=["why.tlog-proof"]), "audit complete"
    ),
    "issue a receipt": Case(stated(IssueReceipt, **LOG, charge="customers#1"), "audit receipt"),
    "prove": Case(stated(ProveRecord, **LOG, index=1, out="1.tlog-proof"), "audit prove"),
    "verify a receipt": Case(
        stated(VerifyProof, proof="why.tlog-proof", answer="why.voile"), "audit verify"
    ),
    "verify a damaged receipt": Case(
        stated(VerifyProof, proof="why.tlog-proof", answer="why.voile"),
        "audit verify",
        code=4,
        prepare=damage_receipt,
    ),
    "anchor without a contract": Case(
        stated(AnchorLog, **LOG, rpc="http://127.0.0.1:9", keystore="payer.json"),
        "audit anchor",
        refused="UnreadableFile",
    ),
    "account for anchors": Case(stated(NewAnchorAccount, keystore="payer.json"), "audit account"),
    "show a schema": Case(stated(ShowSchema, file="loans.toml"), "schema show"),
    "check a schema": Case(
        stated(CheckSchema, file="loans.toml", data="customers.csv"), "schema check"
    ),
    "check what does not fit": Case(
        stated(CheckSchema, file="loans.toml", data="wrong.csv"),
        "schema check",
        code=4,
        prepare=lambda: Path("wrong.csv").write_text(PUBLIC_ROWS + "99,1,maybe\n"),
    ),
    "propose a schema": Case(
        stated(ProposeSchema, data="public.csv", public=True, output="proposed.toml"), "schema from"
    ),
    "propose a schema from protected rows": Case(
        stated(ProposeSchema, data="customers.csv"), "schema from", refused="InvalidInput"
    ),
    "open a budget": Case(stated(OpenBudget, **ROOT_ACCOUNT, account="clinic"), "budget open"),
    "open a budget again": Case(
        stated(OpenBudget, **ROOT_ACCOUNT, account="customers"),
        "budget open",
        refused="InvalidInput",
    ),
    "show budgets": Case(stated(ShowBudgets, **LOG), "budget show"),
    "report a budget": Case(
        stated(ReportBudget, **LOG, account="customers", html="b.html", custodian=True),
        "budget report",
    ),
    "history": Case(stated(BudgetHistory, **LOG, account="customers", last=1), "budget history"),
    "forecast": Case(
        stated(ForecastBudget, **LOG, account="customers", noise=20.0), "budget forecast"
    ),
    "renew": Case(
        stated(RenewBudget, **LOG, account="customers", reason="new cohort"), "budget renew"
    ),
    "set rules": Case(
        stated(
            SetBudgetPolicy, **LOG, account="customers", renew="monthly", reason="rules of 2026"
        ),
        "budget policy",
    ),
    "request approval": Case(
        stated(RequestCharge, **LOG, account="customers", noise=20.0, purpose="review"),
        "budget request",
    ),
    "approve nothing": Case(
        stated(ApproveCharge, **LOG, account="customers", request="99", caller="grace"),
        "budget approve",
        refused="InvalidInput",
    ),
    "list approvals": Case(stated(ListApprovals, **LOG, account="customers"), "budget approvals"),
    "plan questions": Case(
        stated(PlanBudget, **LOG, account="customers", questions=5, save_as="p.json"), "budget plan"
    ),
    "verify budgets": Case(stated(VerifyBudgets, **LOG), "budget verify"),
    "start a workspace": Case(Start.read({**STARTED, "folder": "study", "name": "risk"}), "init"),
    "start a workspace over another": Case(
        Start.read(STARTED), "init", "workspace", refused="InvalidInput"
    ),
    "start a federation": Case(
        stated(Start, source=["customers.csv", "public.csv"], label="employed", folder="study"),
        "init",
    ),
    "start a federation with a budget": Case(
        stated(Start, source=["customers.csv"], epsilon=1.0), "init", refused="InvalidInput"
    ),
    "split a federation": Case(
        stated(Start, source=["old.toml"], folder="split"),
        "init",
        prepare=lambda: Path("old.toml").write_text(OLD_FEDERATION),
    ),
    "assess": Case(
        stated(Assess, subject="voile.toml", minutes=0.01), "assess", "workspace", code=6
    ),
    "assess nothing": Case(stated(Assess, subject="nowhere"), "assess", refused="InvalidInput"),
    "evidence": Case(stated(CollectEvidence, folder="proof", answers=["."]), "evidence", "people"),
    "evidence over another": Case(
        stated(CollectEvidence, folder="made"), "evidence", "people", refused="InvalidInput"
    ),
    "demo": Case(stated(RunDemo, folder="shown", rows=60), "demo"),
}
OLD_FEDERATION: Final = """\
name = "old"
schema = "loans.toml"

[privacy]
epsilon = 2.0
delta = 1e-5

[[clients]]
name = "north"
data = "customers.csv"
rows = 60

[[held_out]]
name = "public"
data = "public.csv"
"""


# --- folders --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def loans(prepared: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log, two accounts, a schema, rows, and one answer that was paid for."""
    folder = tmp_path_factory.mktemp("loans")
    shutil.copytree(prepared, folder, dirs_exist_ok=True)
    with pytest.MonkeyPatch.context() as inside:
        inside.chdir(folder)
        handle(Explain.read({**ASKED, "epsilon": 0.5, "save_as": "why.voile"}))
    return folder


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log, an account over users, and a recommender that was paid from it."""
    folder = tmp_path_factory.mktemp("shop")
    items, columns = shops.catalogue(), shops.table(800)
    named = zip(items.items, items.titles, items.kinds["genre"], strict=True)
    lines = [f"{item},{title},{'|'.join(genres)}" for item, title, genres in named]
    (folder / "items.csv").write_text("\n".join(["item,title,genre", *lines]) + "\n")
    pairs = zip(columns["user"].tolist(), columns["item"].tolist(), strict=True)
    (folder / "lines.csv").write_text("user,item\n" + "".join(f"{u},{i}\n" for u, i in pairs))
    with pytest.MonkeyPatch.context() as inside:
        inside.chdir(folder)
        handle(StartLog(**LOG, origin="example.org/shop"))
        terms: Fields = {
            "unit": "user",
            "dataset": "shop v1",
            "epsilon": 6.0,
            "delta": 1e-5,
        }
        handle(OpenBudget(**LOG, account="users", parallel=True, **terms))
        price = {"epsilon": 2.0, "delta": 1e-6, "folder": "made"}
        handle(TrainRecommender.read({**TRAIN, **price}))
    return folder


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log, an account over rows, and a model that was paid from it."""
    folder = training.write_people(tmp_path_factory.mktemp("people"), 300)
    handle(training.asked(folder, folder=folder / "made"))
    return folder


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("workspace")
    workspaces.started(folder)
    return folder


# --- both ways ------------------------------------------------------------------------------------


def words(case: Case) -> list[str]:
    """What somebody types to ask for the same."""
    arguments, options = list[str](), list[str]()
    for name in type(case.command).model_fields:
        value, about = getattr(case.command, name), type(case.command).model_fields[name]
        if name not in case.command.model_fields_set or value is None:
            continue
        option = option_of(name, about)
        values = [str(each) for each in (value if isinstance(value, tuple) else (value,))]
        if field_extra(about).get("option") == "":
            arguments += values
        elif value is True:
            options.append(option)
        else:
            options += [option, *values]
    return [*case.typed.split(), *arguments, *options, "--json"]


@dataclass(frozen=True)
class Ways:
    """Runs a case in copies of its folder, once by each way in."""

    home: Path
    tmp_path: Path
    monkeypatch: pytest.MonkeyPatch
    capsys: pytest.CaptureFixture[str]

    def by_command_line(self, case: Case) -> Any:
        self._enter("typed", case)
        return self._typed(case) | self._left_behind()

    def by_python(self, case: Case) -> Any:
        """What `handle` returns, shown as the command line shows it."""
        self._enter("called", case)

        def called(given: Command, _terminal: Context) -> Any:
            assert given == case.command, "what is typed is not what is called"
            return handle(case.command)

        self.monkeypatch.setattr(door, "handle", called)
        return self._typed(case) | self._left_behind()

    def _enter(self, name: str, case: Case) -> None:
        folder = self.tmp_path / name / "here"  # a federation is called after its folder
        shutil.copytree(self.home, folder)
        self.monkeypatch.chdir(folder)
        case.prepare()
        self.capsys.readouterr()  # of preparing

    def _typed(self, case: Case) -> dict[str, Any]:
        with pytest.raises(SystemExit) as left:
            cli.main(words(case))
        said = self.capsys.readouterr()
        return {"code": left.value.code, "told": comparable(json.loads(said.out))}

    def _left_behind(self) -> dict[str, Any]:
        files = sorted(str(path) for path in Path().rglob("*") if path.is_file())
        logs = sorted(str(path) for path in Path().rglob("log.db"))
        return {
            "files": files,
            "texts": {path: _text(path) for path in files if path.endswith(".toml")},
            "records": {log: [_facts(each) for each in _records(log)] for log in logs},
            "unsigned": {log: handle(ShowLog(database=log)).facts["unsigned"] for log in logs},
            "budgets": {log: _budgets(log) for log in logs},
        }


def _text(path: str) -> str:
    """But for the folder of this way, and for keys, which are drawn."""
    text = Path(path).read_text().replace(str(Path.cwd()), "HERE")
    return re.sub(r"\+[0-9a-f]{8}\+[A-Za-z0-9+/=]+", "+KEY", text)


def _budgets(database: str) -> Any:
    try:
        return [each.to_dict() for each in handle(ShowBudgets(database=database))]
    except VerificationFailed as error:  # of a log whose pinned checkpoint is lost
        return type(error).__name__


def comparable(value: Any, key: str = "") -> Any:
    if key in VARIES:
        return shape(value)
    if isinstance(value, dict):
        return {name: comparable(each, name) for name, each in value.items()}
    return [comparable(each) for each in value] if isinstance(value, list) else value


def shape(value: Any) -> Any:
    if isinstance(value, list):
        return [shape(each) for each in value if not isinstance(each, str)]
    return "number" if isinstance(value, int | float) else type(value).__name__


def _records(database: str) -> tuple[dict[str, Any], ...]:
    found: tuple[dict[str, Any], ...] = handle(ShowLog(database=database, last=1_000)).records
    return found


def _facts(record: Mapping[str, Any]) -> dict[str, Any]:
    """Of a record all that is no commitment to something that varies, and not when it was made."""
    return {
        name: value
        for name, value in record.items()
        if name not in VARIES and not (isinstance(value, str) and len(value) >= 43)
    }


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is compared is what becomes of commands, not how good attacks or the demo are."""
    monkeypatch.setattr(assessing, "assess", _refuted)
    monkeypatch.setattr(demo, "run", _demo)
    monkeypatch.setenv("VOILE_KEYSTORE_PASSPHRASE", "correct horse")
    monkeypatch.delenv("VOILE_RPC", raising=False)


def _refuted(trials: Sequence[Any], **_: object) -> tuple[AssessedClaim, ...]:
    found: tuple[Any, ...] = (0.5, 1e-5, Verdict.REFUTED, 9, 2e3, 1e3, 0.2, 4)
    return tuple(AssessedClaim(each.name, each.event, *found) for each in trials)


def _demo(output: Path, *, rows_per_hospital: int, **_: object) -> Demo:
    output.mkdir()
    judged = {"private statistics": JudgedModel(0.5, 0.7, None)}
    row, public = Protected("row", "blank one", "demo"), (Adversary.PUBLIC,)  # type: ignore[arg-type]
    promised = Guarantee(
        epsilon=1.0,
        delta=1e-5,
        protected=row,
        against=public,
        computational=False,
        mechanism="noise",
        composition="one release",
    )
    return Demo(
        *(output, output / "report.html", judged, promised, 0),
        *({"city": rows_per_hospital}, output / "e", output / "p", output / "r"),
    )


@pytest.fixture
def ways(
    request: pytest.FixtureRequest,
    case: Case,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Ways:
    return Ways(request.getfixturevalue(case.home), tmp_path, monkeypatch, capsys)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_both_ways_give_the_same(case: Case, ways: Ways) -> None:
    typed, called = ways.by_command_line(case), ways.by_python(case)
    assert typed == called
    error = typed["told"].get("error")
    assert (error and error["kind"]) == case.refused, error
    if error is None:
        assert typed["code"] == case.code
    assert not any(typed["unsigned"].values()), "nothing is left unsigned, refusals neither"


def test_a_command_that_names_a_release_is_answered_from_its_workspace(
    workspace: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Asked in Python first, it is the same question by command line: given again, and free."""
    shutil.copytree(workspace, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    with open_workspace() as opened:
        called = opened.explain("approval", "applicants.csv")
    case = Case(Explain(model="approval", data="applicants.csv"), "explain")
    with pytest.raises(SystemExit) as left:
        cli.main(words(case))
    assert left.value.code == 0
    typed = json.loads(capsys.readouterr().out)
    assert typed["replayed"]
    assert typed["charges"] == list(called.charges)
    assert np.array_equal(typed["values"], called.explanation.values)
    assert typed["guarantees"] == [each.to_dict() for each in called.explanation.guarantees]
    assert handle(case.command).explained.replayed


def test_every_command_is_compared() -> None:
    here = {type(case.command).__name__ for case in CASES.values()}
    assert here | set(ELSEWHERE) == {kind.__name__ for kind in HANDLERS}
    assert here.isdisjoint(ELSEWHERE)
    assert [path for path in ELSEWHERE.values() if not (ROOT / path).is_file()] == []
