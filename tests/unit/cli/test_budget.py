"""`voile budget`, as people type it."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest
from tests.support.budget_schema import SCHEMA
from tests.unit.app.budget_examples import drawn, request

from voile import cli
from voile.app.explain import ReleaseService
from voile.core.errors import BudgetExceeded
from voile.privacy.events import Zcdp
from voile.records.audit_log import AuditLog
from voile.records.ledger import Ledger, ReplayKey
from voile.records.ledger.tables import BALANCES
from voile.records.storage import open_storage
from voile.records.storage.opening import PARTS as PART_VERSIONS
from voile.records.storage.opening import PartVersion
from voile.records.vault import PARTS, Place, Vault

OPEN = ["--dataset", "clinic v1", "--epsilon", "1", "--delta", "1e-5"]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    monkeypatch.chdir(tmp_path)

    def call(*arguments: str, code: int = 0, as_json: bool = True) -> Any:
        with pytest.raises(SystemExit) as left:
            cli.main([*arguments, *(["--json"] if as_json else [])])
        said = capsys.readouterr()
        assert left.value.code == code, said
        return json.loads(said.out) if as_json else said.out

    call("audit", "init", "log.db", "--origin", "example.org/clinic")
    return call


def spend(share: float = 0.02, content: str = "row 1") -> None:
    if not Path("replay.key").exists():
        ReplayKey(bytes(32)).save(Path("replay.key"))
    with open_storage("log.db", PARTS) as storage:
        log = storage.submit(AuditLog.open)
        service = ReleaseService(Vault(Place.within(Path()), storage, Ledger(), log))
        service.answer_request(request(content, event=Zcdp(share)), drawn("noisy"))


def test_open_show_and_the_copy_of_the_checkpoint(run: Any) -> None:
    said = run("budget", "open", "log.db", "clinic", *OPEN)
    assert said["composition"] == "filter: zcdp or renyi 64 1024"
    assert said["gaussian_releases"].startswith("all but 0.")
    assert said["checkpoint"] == "audit.checkpoint (1 records)"
    run("budget", "open", "log.db", "wards", *OPEN, "--parent", "clinic", "--parallel")
    accounts = run("budget", "show", "log.db")["accounts"]
    assert [(a["account"], a["children"]) for a in accounts] == [
        ("clinic", "sequential"),
        ("wards", "parallel"),
    ]
    assert "wards" in run("budget", "show", "log.db", as_json=False)
    assert len(run("budget", "show", "log.db", "wards")["accounts"]) == 1


def test_an_account_that_was_never_charged_gets_other_terms(run: Any) -> None:
    smaller = [*OPEN[:3], "0.5", *OPEN[4:]]
    run("budget", "open", "log.db", "clinic", *smaller, "--again", code=2)
    run("budget", "open", "log.db", "clinic", *OPEN)
    run("budget", "open", "log.db", "clinic", *smaller, code=2)
    run("budget", "open", "log.db", "clinic", *smaller, "--again")
    assert [a["epsilon"] for a in run("budget", "show", "log.db")["accounts"]] == [0.5]
    assert run("budget", "verify", "log.db")["verified"]
    assert run("budget", "report", "log.db", "clinic")["epsilon"] == 0.5
    spend(0.005)
    said = run("budget", "open", "log.db", "clinic", *OPEN, "--again", code=3)
    assert "cannot get new terms" in said["error"]["message"]
    assert run("budget", "verify", "log.db")["verified"]


@pytest.mark.parametrize("name", ["log.db", "audit.key", "audit-policy.toml", "audit.checkpoint"])
def test_a_page_overwrites_nothing_that_is_kept(run: Any, name: str) -> None:
    run("budget", "open", "log.db", "clinic", *OPEN)
    said = run("budget", "report", "log.db", "clinic", "--html", name, code=2)
    assert "overwrit" in said["error"]["message"]
    assert run("budget", "verify", "log.db")["verified"]


def test_a_declared_number_of_records_is_in_the_words_and_the_assumptions(run: Any) -> None:
    run("budget", "open", "log.db", "clinic", *OPEN)
    page = ("budget", "report", "log.db", "clinic", "--html", "budget.html", "--yes")
    assert not any("one person" in each for each in run(*page)["assumptions"])
    assert "A person with 5 records" in Path("budget.html").read_text()
    said = run(*page, "--records-per-person", "3")["assumptions"]
    assert "at most 3 records belong to one person in 'clinic v1': declared" in said[-1]
    shown = Path("budget.html").read_text()
    assert "A person, with at most 3 records (declared, and checked by nobody): ε = 3" in shown
    assert "5 records" not in shown
    assert "at least 1" in run(*page, "--records-per-person", "0", code=2)["error"]["message"]
    run("budget", "open", "log.db", "people", "--unit", "user", *OPEN[:1], "people", *OPEN[2:])
    of_users = ("budget", "report", "log.db", "people", "--records-per-person", "3")
    assert "does not count rows" in run(*of_users, code=2)["error"]["message"]


def test_what_the_workspace_declares_is_told_of_that_very_account(run: Any) -> None:
    run("budget", "open", "log.db", "clinic", *OPEN)
    stated = '[accounts.clinic]\ndataset = "clinic v1"\nepsilon = 1\ndelta = 1e-5\n'
    Path("voile.toml").write_text(f"{stated}records_per_person = 4\n")
    report = ("budget", "report", "log.db", "clinic")
    assert "at most 4 records" in run(*report)["assumptions"][-1]
    assert "at most 2 records" in run(*report, "--records-per-person", "2")["assumptions"][-1]
    other = Path("voile.toml").read_text().replace("clinic v1", "clinic v2")
    Path("voile.toml").write_text(other)
    assert not any("one person" in each for each in run(*report)["assumptions"])


def test_an_earlier_page_is_not_overwritten_unasked(run: Any) -> None:
    run("budget", "open", "log.db", "clinic", *OPEN)
    page = ("budget", "report", "log.db", "clinic", "--html", "budget.html")
    Path("budget.html").write_text("mine")
    assert "kept unless you pass --yes" in run(*page, code=2)["error"]["message"]
    assert Path("budget.html").read_text() == "mine"
    run(*page, "--yes")
    assert "mine" not in Path("budget.html").read_text()


@pytest.mark.parametrize("option", ["--key", "--policy"])
def test_an_empty_name_is_no_file(run: Any, option: str) -> None:
    said = run("budget", "verify", "log.db", option, "", code=2)["error"]
    assert "expected the name of a file" in said["message"]


def test_a_checkpoint_is_small(run: Any) -> None:
    with Path("large").open("wb") as stream:
        stream.truncate(2**20)
    for command in (
        ("budget", "verify", "log.db", "--checkpoint", "large"),
        ("audit", "checkpoint", "log.db", "--out", "large"),
    ):
        assert "larger than the 64 KiB" in run(*command, code=2)["error"]["message"]


def test_declared_columns_are_named_with_the_unit(run: Any) -> None:
    columns = ("--unit", "declared columns of a row", "--column", "income", "--column", "age")
    run("budget", "open", "log.db", "columns", *OPEN, *columns)
    unit = 'declared columns of a row: ["age", "income"]'
    assert run("budget", "show", "log.db")["accounts"][0]["unit"] == unit
    assert run("audit", "show", "log.db", "--last", "1")["records"][0]["unit"] == unit
    assert run("budget", "report", "log.db", "columns")["unit"] == unit
    run("budget", "open", "log.db", "x", *OPEN, *columns[:2], code=2)
    run("budget", "open", "log.db", "x", *OPEN, *columns[2:], code=2)


def test_refusals_have_exit_code_3_and_bad_input_2(run: Any) -> None:
    run("budget", "open", "log.db", "clinic", *OPEN)
    assert "below it" in run("budget", "open", "log.db", "two", *OPEN, code=3)["error"]["message"]
    run("budget", "open", "log.db", "x", *OPEN, "--parent", "nobody", code=2)
    run("budget", "open", "log.db", "x", *OPEN, "--unit", "planet", code=2)
    run("budget", "open", "log.db", "x", *OPEN[:3], "nan", *OPEN[4:], code=2)
    run("budget", "show", "nowhere.db", code=2)
    run("budget", "report", "log.db", "nobody", code=2)


def test_a_plan_from_a_file(run: Any) -> None:
    events = [
        {"kind": "repeated", "times": 3, "event": {"kind": "gaussian", "noise_multiplier": 20}}
    ]
    Path("plan.json").write_text(json.dumps(events))
    said = run("budget", "open", "log.db", "clinic", *OPEN, "--plan", "plan.json")
    assert said["composition"].startswith("plan of 1 events")
    Path("plan.json").write_text("{}")
    run("budget", "open", "log.db", "other", *OPEN, "--plan", "plan.json", code=2)


def test_a_report_in_three_forms(run: Any) -> None:
    run("budget", "open", "log.db", "clinic", *OPEN)
    spend(0.024)
    found = run("budget", "report", "log.db", "clinic", "--custodian", "--html", "report.html")
    jsonschema.validate(found, SCHEMA)
    assert found["risk"] == "HIGH"
    assert [alert["threshold"] for alert in found["alerts"]] == [50, 75]
    assert found["findings"]
    page = Path("report.html").read_text()
    assert "<polyline" in page
    assert "http" not in page.replace("http-equiv", "")
    text = run("budget", "report", "log.db", "clinic", as_json=False)
    assert "HIGH" in text
    assert "ncrease" not in text


def test_the_watch_is_for_the_custodian_only(run: Any) -> None:
    run("budget", "open", "log.db", "clinic", *OPEN)
    spend()
    assert run("budget", "report", "log.db", "clinic")["findings"] is None
    assert "exhaustion" not in run("budget", "report", "log.db", "clinic", as_json=False)


def test_forecast_and_renewal(run: Any) -> None:
    run("budget", "open", "log.db", "clinic", *OPEN)
    spend()
    ahead = run("budget", "forecast", "log.db", "clinic", "--noise", "40")
    assert ahead["more"] > 0
    assert ahead["exhausted_at"] is not None
    said = run("budget", "forecast", "log.db", "clinic", as_json=False)
    assert re.search(r"used up: +\d{4}-\d\d-\d\d \d\d:\d\d UTC", said)
    renewed = run("budget", "renew", "log.db", "clinic", "--reason", "a new cohort")
    assert renewed["period"] == 1
    spend(content="row 2")
    life = run("budget", "report", "log.db", "clinic")["lifetime"]
    assert life["periods"] == 2
    assert 1 < life["epsilon"] < 2 == life["promised_epsilon"]
    run("budget", "renew", "log.db", "clinic", "--reason", " ", code=2)


def test_verify_and_a_restored_backup(run: Any) -> None:
    run("budget", "open", "log.db", "clinic", *OPEN)
    spend()
    assert run("budget", "verify", "log.db")["verified"]
    shutil.copy("log.db", "backup.db")
    run("budget", "renew", "log.db", "clinic", "--reason", "why not")
    assert run("budget", "verify", "log.db")["verified"]
    refused = run("budget", "verify", "backup.db", code=4)
    assert "set back" in refused["steps"][1]["detail"]
    for words in (["show"], ["report", "clinic"], ["forecast", "clinic"], ["history"]):
        said = run("budget", words[0], "backup.db", *words[1:], code=4)
        assert "set back" in said["error"]["message"]
    text = run("budget", "verify", "backup.db", code=4, as_json=False)
    assert "NOT VERIFIED" in text
    assert "records are newer" not in text, "the copy is"
    assert "not counted: the log does not extend every copy handed in (step 2)" in text


def test_verify_finds_a_changed_balance(run: Any) -> None:
    run("budget", "open", "log.db", "clinic", *OPEN)
    spend()
    with open_storage("log.db", PARTS) as storage:

        def forget(t: Any) -> None:
            balance = t.get(BALANCES, "clinic")
            t.replace(BALANCES, balance._replace(sums=bytes(32)))

        storage.submit(forget)
    steps = run("budget", "verify", "log.db", code=4)["steps"]
    assert {s["name"] for s in steps if s["outcome"] == "failed"} == {"journal", "totals"}


def test_verify_opens_stored_answers_with_the_replay_key(run: Any) -> None:
    run("budget", "open", "log.db", "clinic", *OPEN)
    spend()
    for name, key in (("right.key", ReplayKey(bytes(32))), ("wrong.key", ReplayKey.generate())):
        key.save(Path(name))
    steps = run("budget", "verify", "log.db", "--replay-key", "right.key")["steps"]
    assert "1 answers, each the one on record" in [each["detail"] for each in steps]
    steps = run("budget", "verify", "log.db", "--replay-key", "wrong.key", code=4)["steps"]
    assert [s["name"] for s in steps if s["outcome"] == "failed"] == ["answers"]
    said = next(s["detail"] for s in steps if s["name"] == "answers")
    assert said.startswith("none of 1 stored answers opens with this replay key: it is the key of")
    run("budget", "verify", "log.db", "--replay-key", "no.key", code=2)


def test_files_of_another_log_are_no_sign_of_tampering(run: Any) -> None:
    Path("other").mkdir()
    there = ("--key", "other/audit.key", "--policy", "other/audit-policy.toml")
    run("audit", "init", "other/log.db", "--origin", "example.org/other", *there)
    run("budget", "open", "other/log.db", "clinic", *OPEN, *there)
    run("budget", "open", "log.db", "clinic", *OPEN)
    whole = "is that of 'example.org/other', the log is 'example.org/clinic'"
    said = run("budget", "verify", "log.db", *there, code=2)["error"]["message"]
    assert f"the policy {whole}" in said
    said = run("budget", "verify", "log.db", *there[:2], code=2)["error"]["message"]
    assert f"other/audit.checkpoint {whole}" in said


def test_nobody_is_told_to_trust_the_key_of_another_log(run: Any) -> None:
    Path("other").mkdir()
    there = ("--key", "other/audit.key", "--policy", "other/audit-policy.toml")
    run("audit", "init", "other/log.db", "--origin", "example.org/other", *there)
    said = run("budget", "open", "log.db", "clinic", *OPEN, *there[:2], code=2)["error"]["message"]
    assert "the signing key is that of 'example.org/other'" in said
    assert "log_keys" not in said


def test_a_ledger_of_the_first_version_is_refused_with_exit_code_3(run: Any) -> None:
    with open_storage("log.db", PARTS) as storage:
        storage.submit(lambda t: t.replace(PART_VERSIONS, PartVersion("ledger", 1)))
    said = run("budget", "show", "log.db", code=3)["error"]["message"]
    assert "written by an earlier voile" in said
    assert run("audit", "show", "log.db") is not None


def test_history_tells_dates_callers_purposes_and_refusals(run: Any) -> None:
    run("budget", "open", "log.db", "clinic", *OPEN, "--caller", "grace")
    spend()
    with pytest.raises(BudgetExceeded) as refused:
        spend(5.0, "row 2")
    run("budget", "renew", "log.db", "clinic", "--reason", "new cohort", "--caller", "grace")
    acts = run("budget", "history", "log.db")["acts"]
    assert [int(act["time"]) for act in acts] == sorted(int(act["time"]) for act in acts)
    by_kind = {act["act"]: act for act in acts}
    assert len(acts) == len(by_kind) == 4
    kinds = ("opened", "charged", "refused", "renewed")
    opened, charged, turned_away, renewed = (by_kind[kind] for kind in kinds)
    assert (opened["caller"], renewed["caller"], renewed["purpose"]) == (
        "grace", "grace", "new cohort",
    )  # fmt: skip
    assert charged["caller"]
    assert charged["purpose"]
    assert 0 < charged["share"] < 1
    assert turned_away["caller"] == ""
    assert turned_away["purpose"] == str(refused.value)[:300]
    shown = run("budget", "history", "log.db", "clinic", "--last", "1", as_json=False)
    assert re.search(r"20\d\d-\d\d-\d\d", shown)
    assert "and 3 earlier" in shown
    run("budget", "history", "log.db", "nobody", code=2)


def caller_in(history: str) -> str:
    """Of the one act in a table, whose cells go over several lines."""
    lines = [line for line in history.splitlines() if line.startswith("│")]
    return "".join(line.split("│")[4].strip() for line in lines)


def test_nobody_on_record_wipes_out_a_line_of_the_history(run: Any) -> None:
    run("budget", "open", "log.db", "clinic", *OPEN, "--caller", "a\x1b[2Jb\u202ec\x9bd\re")
    shown = run("budget", "history", "log.db", as_json=False)
    assert not set(shown) & set("\x1b\u202e\x9b\r")
    assert caller_in(shown) == r"a\x1b[2Jb\u202ec\x9bd\x0de"


def test_history_tells_long_names_to_the_last_letter(run: Any) -> None:
    name = "".join(f"{number:02}" for number in range(60))
    run("budget", "open", "log.db", "clinic", *OPEN, "--caller", name)
    assert caller_in(run("budget", "history", "log.db", as_json=False)) == name


def test_history_is_of_an_account_and_those_below_it(run: Any) -> None:
    run("budget", "open", "log.db", "clinic", *OPEN)
    run("budget", "open", "log.db", "wards", *OPEN, "--parent", "clinic")
    other = ["--dataset", "bank v1", "--epsilon", "1", "--delta", "1e-5"]
    run("budget", "open", "log.db", "bank", *other)
    assert [act["account"] for act in run("budget", "history", "log.db", "clinic")["acts"]] == [
        "clinic", "wards",
    ]  # fmt: skip
    assert len(run("budget", "history", "log.db")["acts"]) == 3


def test_a_refusal_says_what_was_asked_what_is_left_and_who_renews(run: Any) -> None:
    run("budget", "open", "log.db", "clinic", *OPEN)
    spend()
    with pytest.raises(BudgetExceeded) as refused:
        spend(content="row 2")
    said = str(refused.value)
    figures = re.match(
        r"Budget exceeded: this release needs epsilon = (\S+), and (\S+) is left", said
    )
    assert figures is not None
    needed, left = map(float, figures.groups())
    assert 1 > needed > left > 0
    assert "voile budget renew" in said
    assert "zcdp" not in said
    assert len(said) <= 300  # all of it is on record


def test_a_refusal_of_more_than_the_whole_budget_does_not_advise_to_renew(run: Any) -> None:
    run("budget", "open", "log.db", "clinic", *OPEN)
    with pytest.raises(BudgetExceeded, match="needs more than the whole budget") as refused:
        spend(5.0)
    assert "voile budget renew" not in str(refused.value)
    assert len(str(refused.value)) <= 300


def test_rules_requests_and_plans(run: Any) -> None:
    run("budget", "open", "log.db", "clinic", *OPEN, "--threshold", "60", "--approval", "0.1")
    said = run("budget", "policy", "log.db", "clinic", "--renew", "monthly", "--reason", "rules")
    assert said["policy"] == "alerts at 60 %; renewed monthly; approval above 10 % of the budget"
    said = run("budget", "policy", "log.db", "clinic", "--renew", "never", "--reason", "rules")
    assert "renewed" not in said["policy"]
    asked = run("budget", "request", "log.db", "clinic", "--noise", "9", "--purpose", "x")
    number = asked["request"]
    run("budget", "approve", "log.db", "clinic", number, "--caller", "grace")
    (row,) = run("budget", "approvals", "log.db", "clinic")["requests"]
    assert (row["caller"], row["approver"], row["charge"]) == ("custodian", "grace", "")
    plan = run("budget", "plan", "log.db", "clinic", "--questions", "4", "--save", "plan.json")
    equal, paper = plan["policies"]["equal"], plan["policies"]["algorithm-2"]
    assert len(set(equal["noise"])) == 1
    assert 0.999 < equal["used"] <= 1
    assert paper["epsilons"][0] > paper["epsilons"][1] > paper["epsilons"][3]
    assert len(json.loads(Path("plan.json").read_text())) == 4
    assert run("budget", "verify", "log.db")["verified"]
