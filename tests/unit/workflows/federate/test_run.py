"""A federation from files to an artefact and its report; what is refused, what is continued."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.protecting import row_of

from voile.attribution import FastShap
from voile.audit_log import ParticipationRecord, decode_record
from voile.core.errors import InvalidInput, Refused, UnreadableFile, VerificationFailed
from voile.core.guarantee import Relation
from voile.datasets import Dataset, clinic_federation
from voile.federation import Outcome
from voile.ledger.event_text import event_for_log, event_text
from voile.models import RowWise, row_wise
from voile.privacy.accounting import PrivacyLoss
from voile.privacy.events import Composed, from_dict
from voile.release import PostProcessed
from voile.workflows.artefact import Artefact, load_artefact
from voile.workflows.artefact_manifest import MANIFEST
from voile.workflows.budget.verification import Evidence, verify
from voile.workflows.custody import open_custody
from voile.workflows.federate import Job, federate
from voile.workflows.federate import run as workflow
from voile.workflows.federate.books import ClientBooks
from voile.workflows.federate.config import read_config
from voile.workflows.federate.files import job_from
from voile.workflows.public_example import EXAMPLE
from voile.workflows.report import check_log, report_html, write_report

CLINIC = clinic_federation(60, seed=4)
CHOSEN = ("city", "coast", "harbour")
BOOKS = ("log.db", "audit.key", "audit.checkpoint", "replay.key", "audit-policy.toml")


def write_csv(data: Dataset, path: Path) -> None:
    table = data.schema.table(data.rows)
    label = data.schema.label
    assert label is not None
    names = [data.label_names[int(value)] for value in data.labels]
    columns = {**table, label.name: names}
    lines = [tuple(columns), *zip(*columns.values(), strict=True)]
    path.write_text("".join(",".join(map(str, line)) + "\n" for line in lines))


def write_files(folder: Path) -> Path:
    """Three hospitals, a held-out one, a schema and a config."""
    (folder / "schema.toml").write_text(CLINIC.schema.dumps())
    clients = []
    for name in CHOSEN:
        data = CLINIC.hospitals[name]
        write_csv(data, folder / f"{name}.csv")
        clients.append(f'[[clients]]\nname = "{name}"\ndata = "{name}.csv"\nrows = {len(data)}\n')
    write_csv(CLINIC.hospitals["mountain"], folder / "held-out.csv")
    config = folder / "federation.toml"
    config.write_text(
        'name = "study v1"\nschema = "schema.toml"\n'
        "[privacy]\nepsilon = 3\ndelta = 1e-4\n"
        "[training]\nrounds = 3\nhidden = [16]\ndistillation_steps = 20\n"
        + "".join(clients)
        + '[[held_out]]\nname = "mountain"\ndata = "held-out.csv"\n'
    )
    return config


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Job:
    return job_from(read_config(write_files(tmp_path_factory.mktemp("study"))))


@pytest.fixture(scope="module")
def artefact(job: Job) -> Artefact:
    return federate(job).artefact


# --- the artefact ---------------------------------------------------------------------------------


def test_an_artefact_is_read_again_from_its_folder_alone(artefact: Artefact) -> None:
    again = load_artefact(artefact.folder)
    rows = again.reference[:4]
    assert again.schema == CLINIC.schema
    assert np.array_equal(again.model.predict(rows), artefact.model.predict(rows))
    assert row_wise(again.model) is RowWise.KNOWN
    assert isinstance(again.explainer, FastShap)
    assert again.surrogate.predict(rows).shape == (4, 2)
    assert {row.outcome for row in again.history} == {Outcome.ANSWERED}
    assert len(again.history) == 2 * 3 * len(CHOSEN)


def test_the_guarantee_is_what_the_logged_events_amount_to(artefact: Artefact) -> None:
    """By a second path: from the clients' own signed logs, composed anew."""
    (guarantee,) = artefact.guarantees
    for client in CHOSEN:
        lines = (artefact.log_folder(client) / "records.jsonl").read_bytes().splitlines()
        records = [decode_record(line) for line in lines]
        logged = [record.event for record in records if isinstance(record, ParticipationRecord)]
        history = [from_dict(json.loads(r.event)) for r in artefact.history if r.client == client]
        assert sorted(map(str, logged)) == sorted(event_for_log(event_text(e)) for e in history)
        assert len(history) == 6
        epsilon = PrivacyLoss().compose(Composed(tuple(history))).epsilon(guarantee.delta)
        assert epsilon == pytest.approx(guarantee.epsilon, rel=1e-6)
    assert guarantee.epsilon <= 3
    assert guarantee.delta == pytest.approx(1e-4)
    assert guarantee.protected.relation is Relation.BLANK_ONE


def test_every_log_is_signed_and_a_changed_one_is_noticed(
    artefact: Artefact, tmp_path: Path
) -> None:
    for party in ("server", *CHOSEN):
        assert check_log(artefact, party).failed is None
    shutil.copytree(artefact.folder, tmp_path / "copy")
    copy = replace(artefact, folder=tmp_path / "copy")
    path = copy.log_folder("city") / "records.jsonl"
    path.write_bytes(path.read_bytes().replace(b"surrogate", b"black box", 1))
    assert check_log(copy, "city").failed is not None
    with pytest.raises(VerificationFailed, match="changed or lost"):
        load_artefact(copy.folder)


def test_each_clients_ledger_agrees_with_its_own_log(job: Job, artefact: Artefact) -> None:
    assert artefact.guarantees
    for client in CHOSEN:
        folder = job.folder / "clients" / client
        with open_custody(folder, f"voile.invalid/study-20-v1/{client}") as books:
            report = verify(books.storage, books.ledger, books.log, Evidence())
            assert report.failed is None


def test_free_explanations_follow_from_the_artefact(artefact: Artefact) -> None:
    release = PostProcessed(
        artefact.explainer, [artefact.origin], artefact.model.digest, "distilled"
    )
    assert release.preview(10**6).event is None
    assert release.draw(artefact.reference[:3]).guarantees == artefact.guarantees


def test_no_time_and_no_row_is_in_the_artefact(artefact: Artefact) -> None:
    """How long a client took depends on what it drew; rows stay at home."""
    assert {row.seconds for row in artefact.history} == {0.0}
    for party in ("server", *CHOSEN):
        lines = (artefact.log_folder(party) / "records.jsonl").read_bytes().splitlines()
        for record in map(decode_record, lines):
            assert record.time % 3600 == 0
    content = b"".join(p.read_bytes() for p in artefact.folder.rglob("*") if p.is_file())
    for name in CHOSEN:
        protected = CLINIC.hospitals[name].rows
        for value in protected[:5, 0]:
            assert repr(float(value)).encode() not in content


def test_damage_is_noticed_and_newer_versions_are_refused(
    artefact: Artefact, tmp_path: Path
) -> None:
    with pytest.raises(UnreadableFile, match="no artefact"):
        load_artefact(tmp_path)
    head = json.loads((artefact.folder / MANIFEST).read_text())
    for change, message in (
        ({"version": 2}, "update voile"),
        ({"format": "x"}, "not the manifest"),
        ({"files": None}, "not as voile writes it: files"),
        ({"name": None}, "not as voile writes it: name"),
        ({"settings": {}}, r"not as voile writes it: settings\.clients"),
        ({"settings": head["settings"] | {"logs": {"server": "/etc"}}}, "lies in 'logs/server'"),
        ({"files": head["files"] | {"/etc/passwd": ""}}, "unknown.*/etc/passwd"),
        ({"files": head["files"] | {"../log.db": ""}}, r"unknown.*\.\./log\.db"),
        ({"files": head["files"] | {"extra.json": ""}}, "unknown.*extra"),
        ({"files": {n: d for n, d in head["files"].items() if n != "schema.toml"}}, "missing.*sch"),
    ):
        (tmp_path / MANIFEST).write_text(json.dumps(head | change))
        with pytest.raises(UnreadableFile, match=message):
            load_artefact(tmp_path)
    for text in ("{", "[" * 100_000):
        (tmp_path / MANIFEST).write_text(text)
        with pytest.raises(UnreadableFile, match="JSON"):
            load_artefact(tmp_path)


def test_only_files_of_the_format_are_read_and_none_through_a_link(
    artefact: Artefact, tmp_path: Path
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(artefact.folder, copy)
    (copy / "notes.txt").write_text("not listed, not read")
    assert load_artefact(copy).guarantees == artefact.guarantees
    (copy / "schema.toml").rename(tmp_path / "schema.toml")
    (copy / "schema.toml").symlink_to(tmp_path / "schema.toml")
    with pytest.raises(UnreadableFile, match="a link, expected the file itself"):
        load_artefact(copy)
    (copy / "schema.toml").unlink()
    (tmp_path / "schema.toml").rename(copy / "schema.toml")
    (copy / "logs").rename(tmp_path / "logs")
    (copy / "logs").symlink_to(tmp_path / "logs")
    with pytest.raises(UnreadableFile, match="a link, expected the file itself"):
        load_artefact(copy)


def test_a_model_that_the_manifest_does_not_list_is_not_read(
    artefact: Artefact, tmp_path: Path
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(artefact.folder, copy)
    head = json.loads((copy / MANIFEST).read_text())
    head["files"].pop("black_box.safetensors")
    (copy / MANIFEST).write_text(json.dumps(head))
    assert not load_artefact(copy).has_model


@pytest.mark.parametrize("name", ["guarantees", "statement", "figures"])
@pytest.mark.parametrize("content", ["{}", "[]", "1", "[" * 100_000, '{"guarantees": [1]}'])
def test_json_of_another_form_is_said_so(artefact: Artefact, name: str, content: str) -> None:
    file = "figures.json" if name == "figures" else "guarantees.json"
    path = artefact.folder / file
    before = path.read_bytes()
    path.write_text(content)
    try:
        with pytest.raises(UnreadableFile, match=file):
            getattr(replace(artefact), name)
    finally:
        path.write_bytes(before)


# --- the report -----------------------------------------------------------------------------------


def test_the_report_replaces_no_file_of_the_artefact(artefact: Artefact) -> None:
    for name in ("artefact.json", "guarantees.json", "logs/server/records.jsonl"):
        before = (artefact.folder / name).read_bytes()
        with pytest.raises(InvalidInput, match="would overwrite"):
            write_report(artefact, artefact.folder / name)
        assert (artefact.folder / name).read_bytes() == before


def test_the_report_needs_nothing_else_and_says_everything(
    artefact: Artefact, tmp_path: Path
) -> None:
    path = write_report(artefact, tmp_path / "report.html")
    page = path.read_text()
    assert "default-src 'none'" in page
    assert not re.findall(r"""(?:src|href)=["'](?!data:)""", page)
    for text in ("What is promised", "What is not covered", "How to verify", *CHOSEN):
        assert text in page
    assert page.count("signed and complete") == 1 + len(CHOSEN)
    assert page.count("data:image/png;base64,") == 4


def test_names_on_the_report_are_escaped(artefact: Artefact) -> None:
    page = report_html(replace(artefact, name="<script>alert(1)</script>"))
    assert "<script>" not in page
    assert "&lt;script&gt;" in page


# --- refusals and continuing ----------------------------------------------------------------------


def test_a_complete_run_is_not_charged_again(job: Job, artefact: Artefact) -> None:
    before = artefact.guarantees
    again = federate(job).artefact
    assert again.guarantees == before
    lines = (again.log_folder("city") / "records.jsonl").read_bytes().splitlines()
    assert len(lines) == 7


def test_a_complete_run_changes_nobodys_explanations(artefact: Artefact) -> None:
    """Not even if the reference rows were drawn from the schema, which a new job draws anew."""
    kept = [artefact.folder, artefact.folder.parent / EXAMPLE]
    before = {path: path.read_bytes() for path in _files(kept)}
    again = job_from(read_config(artefact.folder.parents[1] / "federation.toml"))
    assert federate(again).artefact.folder == artefact.folder
    assert {path: path.read_bytes() for path in _files(kept)} == before


def _files(kept: list[Path]) -> list[Path]:
    found = [path for each in kept for path in (each, *each.rglob("*"))]
    return sorted(path for path in found if path.is_file())


def test_arrays_of_one_promise_are_never_shown_under_another(job: Job, artefact: Artefact) -> None:
    """Not with another epsilon, not if the client's books are gone, nor from stored updates."""
    assert artefact.guarantees[0].epsilon > 2
    stricter = replace(job, epsilon=0.5)
    with pytest.raises(Refused, match=r"has opened its account .* another plan"):
        federate(stricter)
    for client in CHOSEN:
        for part in BOOKS:
            (job.folder / "clients" / client / part).rename(job.folder / f"{client}.{part}")
    try:
        with pytest.raises(Refused, match="another promise"):
            federate(stricter)
        shutil.move(job.folder / "checkpoints", job.folder / "moved")
        with pytest.raises(
            Refused, match=r"no client contributed .* charged under another promise"
        ):
            federate(stricter)
    finally:
        shutil.rmtree(job.folder / "checkpoints", ignore_errors=True)
        shutil.move(job.folder / "moved", job.folder / "checkpoints")
        for client in CHOSEN:
            for part in BOOKS:
                (job.folder / f"{client}.{part}").replace(job.folder / "clients" / client / part)
    assert load_artefact(artefact.folder).guarantees == artefact.guarantees


def test_protected_files_can_be_neither_public_nor_at_two_clients(tmp_path: Path) -> None:
    config = write_files(tmp_path)
    text = config.read_text()
    (tmp_path / "link.csv").symlink_to(tmp_path / "city.csv")
    for before, after in (
        ('data = "held-out.csv"', 'data = "city.csv"'),
        ('data = "coast.csv"', 'data = "link.csv"'),
        ('name = "study v1"', 'name = "study v1"\nreference = "city.csv"'),
    ):
        config.write_text(text.replace(before, after))
        with pytest.raises(Refused, match="name the same file"):
            job_from(read_config(config))


def test_sizes_are_public_so_add_or_remove_is_refused(job: Job) -> None:
    with pytest.raises(Refused, match="add or remove"):
        _ = replace(job, protected=row_of(job.name, Relation.ADD_OR_REMOVE_ONE)).plan


def test_nobody_is_called_server(job: Job) -> None:
    with pytest.raises(InvalidInput, match="server"):
        federate(replace(job, clients={"server": job.clients["city"]}))


def test_a_broken_run_is_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = job_from(read_config(write_files(tmp_path)))

    def broken(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(workflow, "contents_of", broken)
        with pytest.raises(KeyboardInterrupt):
            federate(job)
    assert not (job.folder / "artefact").exists()
    done = federate(job)
    lines = (done.artefact.log_folder("city") / "records.jsonl").read_bytes().splitlines()
    assert len(lines) == 7  # the opening and six participations: nothing was trained twice


def test_a_federation_in_which_nobody_can_take_part_shows_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = job_from(read_config(write_files(tmp_path)))

    def refuse(*_: object) -> None:
        raise Refused("not today")

    monkeypatch.setattr(ClientBooks, "before_participation", refuse)
    with pytest.raises(Refused, match=r"no client contributed .* not today"):
        federate(job)
    assert not (job.folder / "artefact").exists()


def test_only_public_facts_about_files_can_be_wrong(tmp_path: Path) -> None:
    config = write_files(tmp_path)
    city = tmp_path / "city.csv"
    text = city.read_text()
    lines = text.splitlines()
    broken = ["nan"] * (lines[0].count(",") + 1)
    city.write_text("\n".join([lines[0], ",".join(broken), *lines[2:]]) + "\n")
    assert len(job_from(read_config(config)).clients["city"]) == len(CLINIC.hospitals["city"])
    whole = job_from(read_config(config)).clients["city"].rows
    for damage in (b"", b"\xff", b'"', lines[1].encode() + b",1"):  # of one record, not of the file
        others = [line.encode() for line in lines[2:]]
        city.write_bytes(b"\n".join([lines[0].encode(), damage, *others]) + b"\n")
        assert np.array_equal(job_from(read_config(config)).clients["city"].rows[1:], whole[1:])
    city.write_text("\n".join(lines[:-1]) + "\n")
    with pytest.raises(InvalidInput, match="declares 102 rows, the file has 101"):
        job_from(read_config(config))
    city.write_text(text.replace("age,", "years,", 1))
    with pytest.raises(InvalidInput, match="columns that are not there: 'age'"):
        job_from(read_config(config))


def with_numbers(schema: str) -> str:
    return schema.replace('["no", "yes"]', '["0", "1"]').replace('default = "no"', 'default = "0"')


def test_a_schema_that_slipped_is_found_before_anything_is_charged(tmp_path: Path) -> None:
    """In the held-out file, which nobody protects; clients' files are not looked at for it."""
    config = write_files(tmp_path)
    schema = tmp_path / "schema.toml"
    text = schema.read_text()
    schema.write_text(with_numbers(text))
    with pytest.raises(InvalidInput, match=r"held-out\.csv: does not fit .*'readmitted' has"):
        job_from(read_config(config))
    assert not (tmp_path / "output").exists()
    schema.write_text(text)
    held_out = tmp_path / "held-out.csv"
    lines = held_out.read_text().splitlines()
    held_out.write_text("\n".join([*lines, "," * lines[0].count(",")]) + "\n")
    job, said = job_from(read_config(config)), list[str]()
    (remark,) = job.remarks
    assert "'readmitted' is empty in 1 of" in remark
    with pytest.raises(InvalidInput):
        federate(replace(job, delta=2.0), say=said.append)
    assert said[0] == remark
    (tmp_path / "city.csv").write_text((tmp_path / "city.csv").read_text().replace("yes", "1"))
    job_from(read_config(config))


def test_numbers_written_as_floats_are_the_categories_that_were_meant(tmp_path: Path) -> None:
    """Whole numbers become 1.0 in many programs as soon as one of them is missing."""
    config = write_files(tmp_path)
    before = job_from(read_config(config)).clients["city"]
    schema = tmp_path / "schema.toml"
    schema.write_text(with_numbers(schema.read_text()))
    for name in (*CHOSEN, "held-out"):
        path = tmp_path / f"{name}.csv"
        path.write_text(path.read_text().replace(",no", ",0.0").replace(",yes", ",1.0"))
    job = job_from(read_config(config))
    assert job.remarks == ()
    assert np.array_equal(job.clients["city"].labels, before.labels)
    assert np.array_equal(job.clients["city"].rows, before.rows)


def test_reference_rows_come_from_a_file_or_from_the_schema(tmp_path: Path) -> None:
    config = write_files(tmp_path)
    drawn = job_from(read_config(config)).reference
    assert np.array_equal(CLINIC.schema.clamp(drawn), drawn)
    config.write_text('reference = "held-out.csv"\n' + config.read_text())
    assert len(job_from(read_config(config)).reference) == len(CLINIC.hospitals["mountain"])
