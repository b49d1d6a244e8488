"""`voile evidence`: every line leads to a record, and nothing is charged, signed or judged."""

from __future__ import annotations

import html
import json
import re
import shutil
import tomllib
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.unit.app import training_examples as training
from tests.unit.app.evidence.bundles import verify_signature
from tests.unit.app.workspace import examples as workspaces
from typer.testing import CliRunner

from voile.app.calls import Context, handle
from voile.app.commands.audit import ShowLog, VerifyProof
from voile.app.commands.evidence import CollectEvidence
from voile.app.commands.explain import Explain
from voile.app.commands.vault import EraseAnswers
from voile.app.evidence.decisions import DecisionPage
from voile.app.evidence.documents import (
    EvidenceSource,
    audit_controls,
    impact_annex,
    technical_documentation,
)
from voile.app.evidence.facts import KEY_KINDS, Attack, KindUse, LogFacts
from voile.app.evidence.handler import EvidenceResult
from voile.app.evidence.lines import Standing, Statements
from voile.cli.app import app
from voile.core.errors import InvalidInput
from voile.records.audit_log import BudgetRenewedRecord, RefusalRecord
from voile.records.vault import Place, open_vault_at

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning")
FREE = """
[backgrounds.public]
file = "public.csv"
origin = "public"

[releases.free]
model = "approval"
schema = "approval"
background = "public"
"""


@pytest.fixture(scope="module")
def loans(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A charged answer about two people, one free answer about both, and its receipts."""
    folder = tmp_path_factory.mktemp("loans")
    workspaces.started(folder)
    with (folder / "voile.toml").open("a") as stream:
        stream.write(FREE)
    with pytest.MonkeyPatch.context() as inside:
        inside.chdir(folder)
        asked = {"data": "applicants.csv", "caller": "ward 3"}
        handle(Explain.read({**asked, "model": "approval"}))
        saved = {"save_as": "answers/free.voile", "row_receipts": "answers/rows"}
        Path("answers").mkdir()
        handle(Explain.read({**asked, "model": "free", **saved}))
    return folder


@pytest.fixture(scope="module")
def collected(loans: Path, tmp_path_factory: pytest.TempPathFactory) -> EvidenceResult:
    folder = tmp_path_factory.mktemp("out") / "evidence"
    return collect(loans, folder, answers=[loans / "answers"])


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> EvidenceResult:
    """A trained model, without a workspace."""
    folder = training.write_people(tmp_path_factory.mktemp("people"), 300)
    handle(training.asked(folder, folder=folder / "made"))
    return collect(folder, folder / "evidence")


def collect(home: Path, folder: Path, **fields: Any) -> EvidenceResult:
    result = handle(CollectEvidence.read({"folder": folder, "workspace": home, **fields}))
    assert isinstance(result, EvidenceResult)
    return result


def read(result: EvidenceResult, name: str) -> str:
    return (result.folder / name).read_text()


def lines(said: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for document in (*said["documents"], *said["decisions"]):
        for section in document["sections"]:
            for line in section["lines"]:
                yield f"{document['name']}.html", line


@pytest.mark.parametrize("made", ["collected", "people"])
def test_no_line_is_without_a_record_or_who_stated_it(
    made: str, request: pytest.FixtureRequest
) -> None:
    result = request.getfixturevalue(made)
    said = json.loads(read(result, "evidence.json"))
    anchors = set(re.findall(r'id="(record-\d+)"', read(result, "records.html")))
    places, counted = set(), 0
    for name, line in lines(said):
        page = html.unescape(read(result, name))
        assert line["asked"] in page
        records = [each for each in line["links"] if each["href"].startswith("records.html#")]
        assert {each["href"].partition("#")[2] for each in records} <= anchors
        assert all(f'href="{each["href"]}"' in page for each in records)
        sourced = bool(records or line["stated_by"])
        assert sourced == (line["standing"] == Standing.PRESENT.value), line
        assert line["standing"] != Standing.MISSING.value or line["found"], line
        places |= {each["href"].partition("#")[0] for each in line["links"]}
        counted += 1
    assert counted == sum(said["counts"].values()) > 50
    assert all((result.folder / each).is_file() for each in places)


def test_records_stand_there_as_the_log_has_them(collected: EvidenceResult, loans: Path) -> None:
    page = read(collected, "records.html")
    records = handle(ShowLog(database=str(loans / "log.db"), last=100)).records
    for number in re.findall(r'id="record-(\d+)"', page):
        assert f"Record {number}: {records[int(number)]['kind']}" in page
        if (answer := records[int(number)].get("answer")) is not None:
            assert answer in page


@pytest.mark.parametrize("made", ["collected", "people"])
def test_nobody_is_called_compliant_and_no_law_has_a_date(
    made: str, request: pytest.FixtureRequest
) -> None:
    result = request.getfixturevalue(made)
    for path in result.folder.iterdir():
        text = path.read_bytes().decode(errors="replace")
        assert not re.search(r"complian", text, re.IGNORECASE), path
    source = Path(__file__).parents[4] / "src" / "voile"
    texts = [*(source / "app" / "evidence").glob("*.py")]
    texts += (source / "views" / "templates").glob("*evidence*")
    for path in texts:
        assert not re.search(r"\b(19|20)\d\d\b", path.read_text()), path


def test_collecting_changes_nothing_in_the_log(loans: Path, tmp_path: Path) -> None:
    before = handle(ShowLog(database=str(loans / "log.db"), last=100))
    collect(loans, tmp_path / "again")
    after = handle(ShowLog(database=str(loans / "log.db"), last=100))
    assert after.facts == before.facts
    assert after.records == before.records


def test_each_person_has_a_page_and_the_fields_of_the_deployer_are_blank(
    collected: EvidenceResult,
) -> None:
    charged = [page for page in collected.decisions if page.record == 1]
    assert [page.row for page in charged] == [1, 2]
    for page in charged:
        text = read(collected, f"{page.name}.html")
        assert text.count('class="blank"') == 5
        assert page.described is not None
        for each in page.described.outputs[0].contributions:
            assert each.text in html.unescape(text)
    assert "employed = no" in html.unescape(read(collected, "decision-1-1.html")), "a label"
    first, second = (read(collected, f"{page.name}.html") for page in charged)
    values = [
        {each.value_text for each in page.described.outputs[0].contributions}
        for page in charged
        if page.described is not None
    ]
    assert not any(f"<td>{each}</td>" in first for each in values[1] - values[0])
    assert not any(f"<td>{each}</td>" in second for each in values[0] - values[1])


def test_the_receipt_of_a_decision_verifies(collected: EvidenceResult) -> None:
    folder = collected.folder
    command = VerifyProof(
        proof=folder / "receipt-1.tlog-proof",
        answer=folder / "answer-1.voile",
        policy=folder / "audit-policy.toml",
    )
    assert handle(command).verified
    assert "receipt-1.tlog-proof --answer answer-1.voile" in read(collected, "decision-1-1.html")


def test_a_free_answer_has_factors_where_its_receipt_is_at_hand(
    loans: Path, collected: EvidenceResult, tmp_path: Path
) -> None:
    def factors(page: DecisionPage) -> str:
        (found,) = (line for line in page.document.lines if line.key.endswith(".factors"))
        return found.standing.value

    free = [page for page in collected.decisions if page.record == 2]
    assert [(page.row, factors(page)) for page in free] == [(1, "present"), (2, "present")]
    bare = [page for page in collect(loans, tmp_path / "x").decisions if page.record == 2]
    assert [(page.row, factors(page)) for page in bare] == [(None, "missing")]


def test_one_row_of_a_free_call_is_proved_by_its_own_receipt(loans: Path, tmp_path: Path) -> None:
    result = collect(loans, tmp_path / "x", answers=[loans / "answers" / "rows"])
    assert [page.row for page in result.decisions if page.record == 2] == [1, 2]


def test_an_answer_that_its_receipt_does_not_prove_is_not_used(loans: Path, tmp_path: Path) -> None:
    given = tmp_path / "given"
    given.mkdir()
    answers = loans / "answers"
    (given / "a.voile").write_bytes((answers / "rows" / "1.voile").read_bytes())
    (given / "a.row-proof").write_bytes((answers / "rows" / "2.row-proof").read_bytes())
    (given / "b.voile").write_bytes((answers / "free.voile").read_bytes())
    heard: list[str] = []
    command = CollectEvidence(folder=tmp_path / "x", workspace=loans, answers=(given,))
    result = handle(command, Context(say=heard.append))
    assert [page.row for page in result.decisions if page.record == 2] == [None]
    assert [line.rpartition(": ")[2] for line in heard] == [
        "its receipt does not verify",
        "there is no receipt beside it",
    ]
    assert "there is no receipt beside it" in read(result, "index.html")


def test_an_erased_answer_has_no_page_and_that_is_said(loans: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    shutil.copytree(loans, home)
    moment = datetime.now(UTC).isoformat()
    handle(EraseAnswers(before=moment, workspace=home, sure=True))
    result = collect(home, tmp_path / "x")
    assert [page.record for page in result.decisions] == [2]
    assert any("record 1: its stored answer was erased" in line for line in result.remarks)
    assert "was erased" in read(result, "index.html")


def test_noise_without_need_is_a_warning(collected: EvidenceResult, tmp_path: Path) -> None:
    assert {name for name, _ in collected.warnings} == {"decision-1-1", "decision-1-2"}
    assert "Noise without need" in read(collected, "decision-1-1.html")
    assert "record 2" in read(collected, "index.html")
    alone = tmp_path / "alone"
    workspaces.started(alone)
    handle(Explain(model="approval", data=alone / "applicants.csv", workspace=alone))
    result = collect(alone, tmp_path / "x")
    assert len(result.decisions) == 2
    assert result.warnings == []


def test_whoever_asks_for_noise_without_need_is_told_before(loans: Path) -> None:
    heard: list[str] = []
    for release in ("approval", "free"):
        command = Explain(
            model=release, data=loans / "applicants.csv", workspace=loans, preview=True
        )
        handle(command, Context(say=heard.append))
    assert len(heard) == 1
    assert "'free' explains the same model exactly and at no cost" in heard[0]


def test_what_is_stated_stands_beside_who_stated_it(
    loans: Path, collected: EvidenceResult, tmp_path: Path
) -> None:
    text = read(collected, "statements.toml")
    assert '"annex-iv.1a" = ""' in text
    filled = text.replace('stated_by = ""', 'stated_by = "R. Muster"')
    filled = filled.replace('"annex-iv.1a" = ""', '"annex-iv.1a" = "Advice on <loans>"')
    filled = filled.replace('"decision.contact" = ""', '"decision.contact" = "desk 4"')
    path = tmp_path / "mine.toml"
    path.write_text(filled)
    result = collect(loans, tmp_path / "x", statements=path)
    page = read(result, "technical.html")
    assert "Advice on &lt;loans&gt;" in page
    assert page.count("stated by R. Muster") == 1
    assert "desk 4" in read(result, "decision-1-2.html")
    again = tomllib.loads(read(result, "statements.toml"))["says"]
    assert {key: text for key, text in again.items() if text} == {
        "annex-iv.1a": "Advice on <loans>",
        "decision.contact": "desk 4",
    }


def test_a_statement_that_nothing_asks_for_is_refused(loans: Path, tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('stated_by = "R"\n[says]\n"annex-iv.1z" = "x"\n')
    with pytest.raises(InvalidInput, match=r"annex-iv\.1z"):
        collect(loans, tmp_path / "x", statements=path)
    assert not (tmp_path / "x").exists()


def test_a_folder_that_is_there_is_not_touched(loans: Path, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="exists already"):
        collect(loans, tmp_path)


def test_pages_are_for_their_owner_only(collected: EvidenceResult) -> None:
    assert {path.stat().st_mode & 0o777 for path in collected.folder.iterdir()} == {0o600}


def test_a_model_has_a_card_and_a_signature(people: EvidenceResult) -> None:
    card = read(people, "model-card-made.md")
    _, head, body = card.split("---\n", 2)
    named = (line.partition(": ") for line in head.splitlines())
    header = {name: json.loads(value) for name, _, value in named}
    (privacy,) = header["differential_privacy"]
    assert privacy["dataset"] == "people 1"
    assert privacy["epsilon"] == pytest.approx(2.0)
    assert header["metrics"][0]["name"] == "log-loss"
    assert "records in the log: 1, 2, 3" in body
    bundle, key = (people.folder / name for name in ("model-made.sig", "model-signing.pub"))
    folder = people.folder.parent / "made"
    assert verify_signature(folder, bundle.read_bytes(), key.read_bytes()) == ""


def test_the_annex_says_the_promise_in_words(people: EvidenceResult) -> None:
    page = html.unescape(read(people, "data-protection.html"))
    assert "For each record of 'people 1', whether it was there or had been blank" in page
    assert "but for a chance of 1 in 100,000" in page
    assert "Nothing was attacked yet: voile assess." in page


def test_one_of_a_kind_is_said_in_the_singular(tmp_path: Path) -> None:
    workspaces.started(tmp_path)
    head, first, *_ = (tmp_path / "applicants.csv").read_text().splitlines(keepends=True)
    (tmp_path / "one.csv").write_text(head + first)
    handle(Explain(model="approval", data=tmp_path / "one.csv", workspace=tmp_path))
    words = ["evidence", str(tmp_path / "evidence"), "--workspace", str(tmp_path)]
    done = CliRunner().invoke(app, words, catch_exceptions=False)
    assert "decisions: 1 page\n" in done.stdout

    with open_vault_at(Place.within(tmp_path), signing=None) as vault:
        facts = LogFacts.read(vault, 10)
    kinds = (*facts.kinds, *KEY_KINDS, RefusalRecord.kind, BudgetRenewedRecord.kind)
    attack = {"verdict": "not refuted", "runs": 1, "software": "0", "subject": "s"}
    one = replace(
        facts,
        size=1,
        signed=1,
        kinds={kind: KindUse(1, 0, 0) for kind in kinds},
        attacks=[Attack(0, SimpleNamespace(**attack))],  # type: ignore[arg-type]
    )
    source = EvidenceSource(one, Statements.read(None), witnesses=1)
    makers = (technical_documentation, impact_annex, audit_controls)
    said = [line.found for make in makers for line in make(source).lines]
    assert "1 explanation is on record." in said
    assert [each for each in said if re.search(r"\b1 (\w+ )?\w+[^s]s\b", each)] == []
