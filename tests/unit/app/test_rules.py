"""`voile compliance`, by command line and from Python: rules and what they led to."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from tests.unit.app.workspace.examples import started
from typer.testing import CliRunner

from voile.app.calls import handle
from voile.app.commands.compliance import (
    CheckRules,
    LiftMeasure,
    PutRules,
    SendAlerts,
    ShowRules,
)
from voile.app.commands.explain import Explain
from voile.app.compliance.enforcement import CoarserOffered, MeasureInForce
from voile.app.workspace import WorkspaceFile
from voile.cli.app import app
from voile.core.errors import InvalidInput
from voile.records.audit_log import RuleRecord, decode_record
from voile.records.ledger import Ledger
from voile.records.vault import Place, open_vault_at

RULES = """
[[rules]]
metric = "budget.used"
account = "customers v1"
alert = 0.001
act = 0.002
action = "stop"

[[notify]]
kind = "log"
file = "alerts.jsonl"
"""
TYPED = CliRunner()


def home(folder: Path, more: str = RULES) -> Path:
    file = started(folder).file
    file.write_text(file.read_text() + more)
    return folder


def ask(folder: Path, row: str = "3,6,no") -> Any:
    rows = folder / "one.csv"
    rows.write_text(f"income,debt,employed\n{row}\n")
    return handle(Explain.read({"model": "approval", "workspace": folder, "data": rows}))


def typed(*words: str) -> Any:
    done = TYPED.invoke(app, ["compliance", *words, "--json"])
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def rules_on_record(folder: Path) -> list[RuleRecord]:
    with open_vault_at(Place.within(folder)) as vault:
        found = vault.storage.read_snapshot(lambda t: vault.log.records(t))
    return [each for each in map(decode_record, found) if isinstance(each, RuleRecord)]


def test_a_workspace_puts_its_rules_in_force_and_they_act(tmp_path: Path) -> None:
    folder = home(tmp_path)
    ask(folder)
    with pytest.raises(MeasureInForce, match="stopped"):
        ask(folder, "9,1,yes")
    assert ask(folder).explained.replayed
    assert len(rules_on_record(folder)) == 1


def test_check_show_lift_and_send(tmp_path: Path) -> None:
    folder = home(tmp_path)
    ask(folder)
    where = ("--workspace", str(folder))
    checked = handle(CheckRules(workspace=folder))
    assert checked.to_dict() == typed("check", *where)
    assert [each["what"].split(":")[0] for each in checked.outcomes] == [
        "alert",
        "measure in force",
    ]
    shown = handle(ShowRules(workspace=folder))
    (measure,) = shown.measures
    assert (measure["action"], measure["subject"]) == ("stop", "customers v1")
    assert shown.waiting == ({"channel": "log", "waiting": 2, "problem": ""},)
    assert typed("show", *where)["measures"] == [measure]

    assert typed("send", *where)["channels"][0]["sent"] == 2
    assert handle(SendAlerts(workspace=folder))[0].sent == 0
    assert len((folder / "alerts.jsonl").read_text().splitlines()) == 2

    asked = {"subject": "customers v1", "reason": "checked by hand"}
    handle(LiftMeasure.read({"workspace": folder, "rule": measure["rule"][:6], **asked}))
    assert not handle(ShowRules(workspace=folder)).measures
    ask(folder, "9,1,yes")
    assert typed("check", *where)["verified"]
    again = {"workspace": folder, "rule": measure["rule"], **asked}
    with pytest.raises(InvalidInput, match="no measure"):
        handle(LiftMeasure.read(again))
    with pytest.raises(InvalidInput, match="no rule in force"):
        handle(LiftMeasure.read(again | {"rule": "f" * 12}))


def test_the_same_in_words(tmp_path: Path) -> None:
    folder = home(tmp_path)
    ask(folder)
    where = ["--workspace", str(folder)]
    for words, said in (
        (["check"], "led to 2 alerts, measures and lifts"),
        (["show"], "log: 2 to be sent"),
        (["send"], "log: 2 sent, 0 waiting"),
        (["apply"], "rules:"),
    ):
        done = TYPED.invoke(app, ["compliance", *words, *where])
        assert done.exit_code == 0, done.output
        assert said in done.output


def test_other_rules_are_tried_and_nothing_is_changed(tmp_path: Path) -> None:
    folder = home(tmp_path, "")
    ask(folder)
    before = (folder / "log.db").stat().st_mtime_ns, len(rules_on_record(folder))
    other = tmp_path / "other.toml"
    other.write_text(RULES)
    tried = handle(CheckRules(workspace=folder, dry_run=True, rules=other))
    assert tried.tried
    assert len(tried.outcomes) == 2
    assert handle(CheckRules(workspace=folder, dry_run=True)).outcomes == ()
    assert (len(rules_on_record(folder)), handle(CheckRules(workspace=folder)).outcomes) == (0, ())
    assert before[1] == 0
    with pytest.raises(InvalidInput, match="--dry-run"):
        handle(CheckRules(workspace=folder, rules=other))


def test_a_file_that_says_nothing_of_rules_ends_none(tmp_path: Path) -> None:
    folder = home(tmp_path)
    file, with_rules = folder / "voile.toml", (folder / "voile.toml").read_text()
    assert handle(PutRules(workspace=folder)).facts == {"rules": 1, "changed": True}
    assert handle(PutRules(workspace=folder)).facts == {"rules": 1, "changed": False}
    file.write_text(with_rules.replace(RULES, ""))
    assert handle(PutRules(workspace=folder)).facts == {"rules": 1, "changed": False}
    file.write_text("rules = []\n" + with_rules.replace(RULES, ""))
    assert handle(PutRules(workspace=folder)).facts == {"rules": 0, "changed": True}
    assert rules_on_record(folder)[-1].count == 0


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ('[[rules]]\nmetric = "budget.used"\nacount = "x"', "acount: there is no such key; did"),
        ('[[rules]]\nmetric = "latency"', "rules.0.metric"),
        ('[[rules]]\nmetric = "privacy.loss"\naccount = "x"', "needs allowance"),
        ('[[notify]]\nkind = "webhook"\nurl = "https://x/"', "webhook needs key"),
        ('[[notify]]\nkind = "webhook"\nurl = "http://x/"\nkey = "k"', "notify.0.url"),
        ('[[notify]]\nkind = "log"\nurl = "https://x/"', "url does not belong to log"),
        ('[[notify]]\nkind = "log"\n[[notify]]\nkind = "log"', "same name"),
        ('[[notify]]\nkind = "log"\nfil = "x"', "fil: there is no such key"),
    ],
)
def test_what_is_wrong_is_told_by_name(tmp_path: Path, more: str, said: str) -> None:
    folder = home(tmp_path, more)
    with pytest.raises(InvalidInput, match=said):
        WorkspaceFile.read(folder)


QUALITY = """
[[rules]]
metric = "explanation.quality"
alert = 0.0001
act = 0.0002
"""


def test_a_coarser_level_is_taken_by_command_only_if_it_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, now = home(tmp_path, QUALITY), time.time()
    monkeypatch.setattr(Ledger.__init__, "__defaults__", (lambda: now,))
    ask(folder)
    monkeypatch.setattr(Ledger.__init__, "__defaults__", (lambda: now + 3600,))
    ask(folder, "9,1,yes")
    with pytest.raises(CoarserOffered, match="level of this explanation: summary"):
        ask(folder, "5,5,yes")
    rows = str(folder / "one.csv")
    coarser = Explain.read(
        {"model": "approval", "workspace": folder, "data": rows, "coarser": True}
    )
    assert handle(coarser).explained.explanation.feature_names == ("money", "work")
