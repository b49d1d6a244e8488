"""From what is charged somewhere to verdicts, findings, a record and a report."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.support.pages import report_html
from tests.unit.app.assess.command import run
from tests.unit.app.federate.test_guided import write_guided
from tests.unit.app.federate.test_kinds import write_logistic
from tests.unit.app.federate.test_run import write_files
from tests.unit.app.workspace import examples as workspaces
from tests.unit.recommenders import examples as shops

from voile import open_workspace
from voile.app.artefact import Artefact, load_artefact
from voile.app.artefact_manifest import MANIFEST
from voile.app.assess import MembersAttack, Subject, assess_subject, find_subject
from voile.app.assessment_file import ASSESSMENT, find_assessment
from voile.app.calls import handle
from voile.app.commands.explain import Explain
from voile.app.explain import ReleaseService
from voile.app.federate import federate, read_agreement, read_job
from voile.app.recommend import save_recommender
from voile.app.report import write_report
from voile.assess import release_canary
from voile.assess.assessment import AssessedClaim, Verdict
from voile.assess.members_count import NOT_FOR_RELEASE
from voile.assess.training_canaries import AttributeCanaries, TrainingCanaries
from voile.cli.app import app
from voile.cli.assess import _line
from voile.core.errors import InvalidInput, Refused, UnreadableFile, VerificationFailed
from voile.federation.history import event_as_text
from voile.privacy.events import Gaussian
from voile.records.audit_log import EventsAssessmentRecord, decode_record
from voile.records.vault import open_vault_at
from voile.training.private import loop

SECONDS = 0.5


@pytest.fixture(autouse=True)
def few_lessons(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is tested here is what becomes of verdicts, not how good attacks are."""
    monkeypatch.setattr(release_canary, "LEARNED_FROM", 40)


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_logistic(tmp_path_factory.mktemp("logistic"))


@pytest.fixture(scope="module")
def artefact(config: Path) -> Artefact:
    return federate(read_job(config)).artefact


def records(subject: Subject) -> list[EventsAssessmentRecord]:
    assert subject.books is not None
    with open_vault_at(subject.books) as vault:
        contents = vault.storage.submit(lambda t: vault.log.records(t, limit=10**6))
        assert ReleaseService(vault).verify().failed is None
    found = map(decode_record, contents)
    return [each for each in found if isinstance(each, EventsAssessmentRecord)]


def test_stages_of_an_artefact_are_those_that_were_charged(
    config: Path, artefact: Artefact
) -> None:
    planned = find_subject(config)
    subject = find_subject(artefact.folder)
    assert [each.event for each in subject.trials] == [e.event for e in planned.trials]
    assert {row.event for row in artefact.history} == {
        event_as_text(each.event) for each in subject.trials
    }
    assert planned.books is None


def test_every_stage_of_a_federation_is_audited(tmp_path: Path) -> None:
    config = write_files(tmp_path)
    plan = read_agreement(config).plan
    subject = find_subject(config)
    assert {each.event for each in subject.trials} == set(plan.participation_events)
    assert [each.name for each in subject.trials] == ["black box", "surrogate"]
    assert subject.left_out == ()


def test_what_was_found_is_on_record_and_in_the_report(artefact: Artefact) -> None:
    subject = find_subject(artefact.folder)
    done = assess_subject(subject, seconds=SECONDS)
    assert done.path == artefact.folder / ASSESSMENT
    (record,) = records(subject)
    assert record.findings == hashlib.sha256(done.path.read_bytes()).digest()
    assert record.verdict == done.verdict.value
    assert record.subject == artefact.name
    page = report_html(artefact)
    assert "What an attacker found" in page
    assert record.findings.hex() in page
    assert f">{done.events[0].verdict.word}<" in page
    assert "safe" not in (artefact.folder / ASSESSMENT).read_text()


def test_a_log_that_cannot_be_told_is_noticed_before_anything_is_tried(
    artefact: Artefact, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    shutil.copytree(artefact.folder.parent, run)
    subject = find_subject(run / artefact.folder.name)
    (run / "log.db").unlink()
    (subject.folder / ASSESSMENT).unlink(missing_ok=True)
    with pytest.raises(InvalidInput, match="no such database"):
        assess_subject(subject, seconds=SECONDS, seen=lambda *_: pytest.fail("tried"))
    assert find_assessment(subject.folder) is None


@pytest.mark.usefixtures("sees_nothing")
def test_a_report_shows_findings_on_its_own_charges_and_claims_no_record_of_them(
    artefact: Artefact, tmp_path: Path
) -> None:
    copy = tmp_path / "artefact"
    shutil.copytree(artefact.folder, copy)
    done = assess_subject(find_subject(copy), seconds=0.01)
    assert done.record is None
    page = " ".join(report_html(load_artefact(copy)).split())
    assert "there is no log beside this artefact" in page
    assert "those of one party in one round" in page
    found = json.loads(done.path.read_text())
    found["events"][0]["event"]["times"] += 1
    done.path.write_text(json.dumps(found))
    with pytest.raises(VerificationFailed, match="about other events than those"):
        report_html(load_artefact(copy))


def test_settings_that_contradict_the_charges_are_noticed(
    artefact: Artefact, tmp_path: Path
) -> None:
    copy = tmp_path / "artefact"
    shutil.copytree(artefact.folder, copy)
    manifest = json.loads((copy / MANIFEST).read_text())
    manifest["settings"]["training"]["logistic regression"]["noise_multiplier"] *= 2
    (copy / MANIFEST).write_text(json.dumps(manifest))
    with pytest.raises(VerificationFailed, match="other terms than its settings"):
        find_subject(copy)
    manifest["settings"]["training"]["logistic regression"] = {}
    (copy / MANIFEST).write_text(json.dumps(manifest))
    with pytest.raises(Refused, match="does not say how"):
        find_subject(copy)


def test_releases_of_a_workspace_are_audited_at_their_price(tmp_path: Path) -> None:
    workspaces.started(tmp_path / "house")
    subject = find_subject(tmp_path / "house")
    (trial,) = subject.trials
    assert trial.name == "approval"
    assert isinstance(trial.event, Gaussian)
    done = assess_subject(subject, seconds=SECONDS)
    assert done.record is not None
    assert records(subject)[0].runs == done.events[0].runs


def test_moments_of_a_recommender_are_audited(tmp_path: Path) -> None:
    save_recommender(shops.moments(shops.shop(1000)), tmp_path / "shop")
    subject = find_subject(tmp_path / "shop")
    names = [each.name for each in subject.trials]
    assert names == ["popularity of items", "Gram matrix of items"]
    done = assess_subject(subject, seconds=SECONDS)
    assert done.record is None  # there are no books beside it


def test_nothing_charged_is_nothing_to_refute(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="expected the folder of an artefact"):
        find_subject(tmp_path)
    with pytest.raises(InvalidInput, match="nothing to assess: nothing is charged"):
        assess_subject(Subject("nobody", (), (), tmp_path, None), seconds=1)


def test_a_foreign_file_is_not_read_as_findings(tmp_path: Path) -> None:
    assert find_assessment(tmp_path) is None
    (tmp_path / ASSESSMENT).write_text('{"verdict": "safe"}')
    with pytest.raises(UnreadableFile):
        find_assessment(tmp_path)


# --- the command ----------------------------------------------------------------------------------


def test_a_refuted_claim_has_an_exit_code_of_its_own(
    artefact: Artefact, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop.Noise, "add_to", lambda *_: None)
    done = run(artefact.folder, "--minutes", 2, "--json")  # ends when the claim has fallen
    assert done.exit_code == 6
    told = json.loads(done.stdout)
    assert told["verdict"] == "refuted"
    assert told["events"][0]["e_value"] >= told["events"][0]["threshold"]
    assert told["record"] is not None


@pytest.fixture
def sees_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if there were too little time: how fast the machine is does not matter."""

    def nothing(self: TrainingCanaries, _: Any) -> dict[str, Any]:
        return {name: np.zeros(self.canaries) for name in self.score_names}

    monkeypatch.setattr(TrainingCanaries, "_scores", nothing)


@pytest.mark.usefixtures("sees_nothing")
def test_an_attack_that_sees_nothing_is_blind_and_says_so(artefact: Artefact) -> None:
    done = run(artefact.folder, "--minutes", 0.01)
    assert done.exit_code == 7
    assert "verdict   inconclusive" in done.stdout


@pytest.mark.usefixtures("sees_nothing")
def test_the_command_says_how_far_it_is(
    artefact: Artefact, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[Any] = []
    monkeypatch.setattr("voile.cli.assess.progress_line", lambda: told.append)
    run(artefact.folder, "--minutes", 0.01)
    assert told[-1].claims == 1


def test_a_blind_attack_says_what_follows() -> None:
    said = {
        verdict: _line(
            AssessedClaim("stage", Gaussian(5.0), 0.5, 1e-5, verdict, 9, 1.0, 1e3, 0.2, 4)
        )
        for verdict in Verdict
    }
    follows = {verdict for verdict, line in said.items() if "nothing follows" in line}
    assert follows == {Verdict.BLIND}
    assert said[Verdict.BLIND].endswith("; nothing follows: allow more --minutes")


def test_a_claim_is_never_printed_smaller_than_it_is() -> None:
    tried = AssessedClaim(
        "stage", Gaussian(5.0), 0.48301, 1e-5, Verdict.BLIND, 9, 1.0, 1e3, 0.0, None
    )
    assert "claim ε = 0.4831, δ = 1e-05; 9 runs, e-value 1 of 1000" in _line(tried)


# --- members --------------------------------------------------------------------------------------


def rows_of(artefact: Artefact, path: Path, count: int, seed: int) -> Path:
    """Invented rows of the artefact's schema, labels among them."""
    draw = np.random.default_rng(seed)
    rows = artefact.reference[draw.integers(0, len(artefact.reference), count)]
    table = {name: list(column) for name, column in artefact.schema.table(rows).items()}
    label = artefact.schema.label
    assert label is not None
    values: Any = getattr(label.domain, "values", (0, 1))
    table[label.name] = [str(values[i]) for i in draw.integers(0, len(values), count)]
    lines = [
        ",".join(table),
        *(",".join(map(str, line)) for line in zip(*table.values(), strict=True)),
    ]
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.usefixtures("sees_nothing")
def test_findings_on_members_reach_one_folder_and_nothing_else(
    artefact: Artefact, tmp_path: Path
) -> None:
    """Two sets of members with different findings: all that is shown is the same."""
    others = rows_of(artefact, tmp_path / "others.csv", 60, 0)
    shown, found = [], []
    for seed in (1, 2):
        members = rows_of(artefact, tmp_path / "members.csv", 60, seed)
        done = run(artefact.folder, "--minutes", 0.01, "--members", members, "--others", others)
        kept = artefact.folder.parent / NOT_FOR_RELEASE / "membership-by-outputs.json"
        figures = json.loads(kept.read_text())["figures"]
        found.append(figures)
        for name in ("area_under_curve", "largest_gap"):
            assert f"{figures[name]:.6f}" not in done.output
        assert "figures" not in done.output
        # What an assessment says differs from run to run, by its own chance.
        words = re.sub(r"[\d.,e+-]+", "#", done.output)
        (artefact.folder / ASSESSMENT).unlink()
        shown.append((done.exit_code, words, report_html(artefact)))
    assert found[0] != found[1]
    assert shown[0] == shown[1]
    assert shown[0][0] == 7
    inside = {path.name for path in artefact.folder.rglob("*")}
    assert "membership-by-outputs.json" not in inside
    told = records(find_subject(artefact.folder))[-2:]
    names = {field.name for field in fields(EventsAssessmentRecord)} - {"time", "findings", "runs"}
    assert len({tuple(getattr(each, name) for name in sorted(names)) for each in told}) == 1


def test_members_are_not_their_own_comparison(artefact: Artefact, tmp_path: Path) -> None:
    same = rows_of(artefact, tmp_path / "rows.csv", 5, 0)
    with pytest.raises(Refused, match="cannot be both --members and --others"):
        MembersAttack.read(artefact.folder, same, same)


@pytest.mark.parametrize("line", ["", "?,?,?\n" * 3])
def test_members_of_whom_nothing_can_be_read_are_not_told_of(
    artefact: Artefact, tmp_path: Path, recwarn: pytest.WarningsRecorder, line: str
) -> None:
    others = rows_of(artefact, tmp_path / "others.csv", 5, 0)
    members = tmp_path / "members.csv"
    members.write_text(others.read_text().splitlines(keepends=True)[0] + line)
    kept = MembersAttack.read(artefact.folder, members, others).run()
    assert json.loads(kept.read_text())["figures"] == {"members": 0, "others": 5}
    assert not recwarn.list


def test_files_of_members_are_looked_for_before_anything_is_tried(
    artefact: Artefact, config: Path, tmp_path: Path
) -> None:
    others = rows_of(artefact, tmp_path / "others.csv", 5, 0)
    before = len(records(find_subject(artefact.folder)))
    for subject, members in ((artefact.folder, tmp_path / "nobody.csv"), (config, others)):
        done = run(subject, "--minutes", 0.01, "--members", members, "--others", others)
        assert "claims, at most" not in done.output
        assert isinstance(done.exception, UnreadableFile | InvalidInput)
    assert len(records(find_subject(artefact.folder))) == before


def test_members_without_others_are_bad_usage(artefact: Artefact, tmp_path: Path) -> None:
    done = run(artefact.folder, "--members", tmp_path / "x.csv")
    assert done.exit_code == 2


def test_the_worst_verdict_stands_for_all() -> None:
    from voile.app.assess.run import _WORST

    assert set(_WORST) == set(Verdict)
    assert _WORST[0] is Verdict.REFUTED
    assert _WORST[-1] is Verdict.NOT_REFUTED


# --- declared columns -----------------------------------------------------------------------------


def test_every_level_of_a_guided_federation_is_audited(tmp_path: Path) -> None:
    config = write_guided(tmp_path)
    planned = find_subject(config)
    plan: Any = read_agreement(config).plan
    charged = {plan.events_of(name)[0] for name in plan.noise}
    assert {each.event for each in planned.trials} == charged
    assert len(charged) == 2
    subject = find_subject(federate(read_job(config)).artefact.folder)
    assert {each.event for each in subject.trials} == charged
    kinds = {type(a) for each in subject.trials for a in each.arrangements(False)}
    assert kinds == {AttributeCanaries}


def test_findings_overwrite_nothing_but_findings(config: Path, tmp_path: Path) -> None:
    subject = replace(find_subject(config), folder=tmp_path)
    (tmp_path / ASSESSMENT).write_text('{"by": "somebody else"}')
    with pytest.raises(InvalidInput, match="does not hold findings"):
        assess_subject(subject, seconds=SECONDS)
    assert "somebody else" in (tmp_path / ASSESSMENT).read_text()
    (tmp_path / ASSESSMENT).unlink()
    for _ in range(2):
        assess_subject(subject, seconds=SECONDS)


# --- what pages say about it ----------------------------------------------------------------------


def explained_page(folder: Path, *arguments: object) -> str:
    from typer.testing import CliRunner

    page = folder / "why.html"
    words = ("explain", *arguments, "--page", page, "--yes")
    done = CliRunner().invoke(app, [str(word) for word in words])
    assert done.exit_code == 0, done.output + str(done.exception)
    return " ".join(page.read_text().split())


@pytest.fixture
def own(artefact: Artefact, tmp_path: Path) -> Path:
    """A finished run of one's own, with a patient to explain."""
    run = Path(shutil.copytree(artefact.folder.parent, tmp_path / "run"))
    (run / "artefact" / ASSESSMENT).unlink(missing_ok=True)
    lines = (run / "example.csv").read_text().splitlines(keepends=True)
    (run / "one.csv").write_text("".join(lines[:2]))
    return run


def test_one_persons_page_says_what_an_attacker_found(own: Path, tmp_path: Path) -> None:
    words = (own / "artefact", own / "one.csv")
    assert "What an attacker found" not in explained_page(tmp_path, *words)
    done = assess_subject(find_subject(own / "artefact"), seconds=SECONDS)
    page = explained_page(tmp_path, *words)
    assert "What an attacker found" in page
    assert f">{done.verdict.word.capitalize()}</b>" in page
    assert f"(Record {done.record} of the" in page
    assert " safe" not in page
    from typer.testing import CliRunner

    several = tmp_path / "several"
    CliRunner().invoke(app, ["explain", *map(str, words), "--page", f"{several}/"])
    assert "What an attacker found" in (several / "1.html").read_text()


@pytest.mark.usefixtures("sees_nothing")
def test_findings_that_the_log_does_not_confirm_are_on_no_page(own: Path, tmp_path: Path) -> None:
    done = assess_subject(find_subject(own / "artefact"), seconds=0.01)
    text = done.path.read_text()
    for changed in (
        text.replace('"verdict": "blind"', '"verdict": "not refuted"'),
        text.replace(f'"record": {done.record}', '"record": 0'),
        text.replace(f'"record": {done.record}', '"record": 1000000'),
        text.replace(f'"record": {done.record}', '"record": null'),
        text.replace('"software": "', '"software": "9'),
    ):
        assert changed != text
        done.path.write_text(changed)
        page = explained_page(tmp_path, own / "artefact", own / "one.csv")
        assert "What an attacker found" not in page


def test_a_report_compares_findings_with_the_log_beside_it(own: Path) -> None:
    done = assess_subject(find_subject(own / "artefact"), seconds=0.01)
    artefact = load_artefact(own / "artefact")
    assert f"record {done.record} of the server" in report_html(artefact)
    text = done.path.read_text()
    done.path.write_text(text.replace('"runs": ', '"runs": 9'))
    with pytest.raises(VerificationFailed, match="says otherwise"):
        report_html(artefact)
    done.path.write_text(text.replace(f'"record": {done.record}', '"record": null'))
    assert "no log was told of them" in report_html(artefact)
    earlier = json.loads(text)
    del earlier["record"]
    done.path.write_text(json.dumps(earlier))
    assert "no log was told of them" in report_html(artefact)


def test_a_charged_release_is_said_to_be_assessed_where_it_was(tmp_path: Path) -> None:
    workspaces.started(tmp_path / "house")
    home = tmp_path / "house"
    done = assess_subject(find_subject(home), seconds=SECONDS)
    one = home / "one.csv"
    one.write_text("".join((home / "applicants.csv").read_text().splitlines(keepends=True)[:2]))
    words = ("approval", one, "--workspace", home / "voile.toml")
    assert f"(Record {done.record} of the" in explained_page(tmp_path, *words)


def test_both_doors_attach_what_was_found(tmp_path: Path) -> None:
    workspaces.started(tmp_path)
    done = assess_subject(find_subject(tmp_path), seconds=SECONDS)
    asked = {"model": "approval", "data": tmp_path / "applicants.csv"}
    typed = handle(Explain.read({**asked, "workspace": tmp_path / "voile.toml"}))
    with open_workspace(tmp_path) as workspace:
        called = workspace.explain("approval", tmp_path / "applicants.csv")
    assert typed.explained.assessed is not None
    assert f"ecord {done.record} of the" in str(typed.explained.assessed)
    assert called.assessed == typed.explained.assessed


def test_damaged_findings_are_told_before_anything_is_charged(tmp_path: Path) -> None:
    from typer.testing import CliRunner

    workspaces.started(tmp_path / "house")
    home = tmp_path / "house"
    (home / ASSESSMENT).write_text("{")
    one = home / "one.csv"
    one.write_text("".join((home / "applicants.csv").read_text().splitlines(keepends=True)[:2]))
    words = ["explain", "approval", str(one), "--workspace", str(home / "voile.toml")]
    before = (home / "log.db").read_bytes()
    done = CliRunner().invoke(app, [*words, "--page", str(tmp_path / "why.html")])
    assert isinstance(done.exception, UnreadableFile)
    assert (home / "log.db").read_bytes() == before


@pytest.mark.usefixtures("sees_nothing")
def test_the_last_assessment_counts_and_not_the_best(own: Path, tmp_path: Path) -> None:
    """An earlier file is put back, or whoever assessed last was killed before it wrote one."""
    first = assess_subject(find_subject(own / "artefact"), seconds=0.01)
    kept = first.path.read_bytes()
    assess_subject(find_subject(own / "artefact"), seconds=0.01)
    words = own / "artefact", own / "one.csv"
    assert "What an attacker found" in explained_page(tmp_path, *words)
    first.path.write_bytes(kept)
    assert "What an attacker found" not in explained_page(tmp_path, *words)
    with pytest.raises(VerificationFailed, match="says otherwise"):
        report_html(load_artefact(own / "artefact"))


@pytest.mark.parametrize("name", ["audit.checkpoint", "log.db.turn"])
def test_a_report_replaces_nothing_of_the_books_beside_it(own: Path, name: str) -> None:
    before = (own / name).read_bytes()
    with pytest.raises(InvalidInput, match="would overwrite"):
        write_report(load_artefact(own / "artefact"), own / name)
    assert (own / name).read_bytes() == before


def test_members_warn_of_nothing_whatever_the_network_makes_of_them(
    artefact: Artefact, tmp_path: Path, recwarn: pytest.WarningsRecorder
) -> None:
    """Weights come from a server, which could aim an overflow at somebody."""
    others = rows_of(artefact, tmp_path / "others.csv", 5, 0)
    members = rows_of(artefact, tmp_path / "members.csv", 5, 1)
    attack = MembersAttack.read(artefact.folder, members, others)
    for layer in attack.artefact.network.network.layers:
        layer.weight[:] = np.float32(3e38)
    attack.run()
    assert not recwarn.list


@pytest.mark.parametrize("linked", [True, False])
def test_findings_on_members_go_nowhere_else(own: Path, tmp_path: Path, linked: bool) -> None:
    place = own / NOT_FOR_RELEASE
    shutil.rmtree(place, ignore_errors=True)
    if linked:
        (tmp_path / "elsewhere").mkdir()
        place.symlink_to(tmp_path / "elsewhere")
    else:
        place.write_text("mine")
    folder = own / "artefact"
    others = rows_of(load_artefact(folder), tmp_path / "others.csv", 5, 0)
    members = rows_of(load_artefact(folder), tmp_path / "members.csv", 5, 1)
    with pytest.raises(Refused, match="and nowhere else"):
        MembersAttack.read(folder, members, others)
