"""A federation from files to an artefact and its report; what is refused, what is continued."""

from __future__ import annotations

import json
import re
import shutil
import sqlite3
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.protecting import row_of
from tests.support.pages import report_html

from voile.app.artefact import Artefact, load_artefact
from voile.app.artefact_manifest import MANIFEST
from voile.app.budget.verification import Evidence, verify
from voile.app.federate import Job, Party, federate, open_node, origin_of, read_job
from voile.app.federate import run as workflow
from voile.app.federate.books import ClientBooks, ServerBooks
from voile.app.federate.logs import checked_log
from voile.app.federate.party import run_lock
from voile.app.federate.run import run_server
from voile.app.federate.starting import split
from voile.app.public_example import EXAMPLE
from voile.app.report import check_log, importance, write_report
from voile.attribution import FastShap
from voile.core.description import Uncertainty
from voile.core.errors import (
    InvalidInput,
    Refused,
    StorageBusy,
    UnreadableFile,
    VerificationFailed,
    VoileError,
)
from voile.core.guarantee import Relation
from voile.core.schema import Categories, Feature, Label, Numbers, Schema
from voile.datasets import Dataset, clinic_federation
from voile.evaluation import log_losses
from voile.federation import Closed, Instruction, Joining, Outcome, Threads
from voile.federation.arrays import digest_of_arrays
from voile.models import RowWise, row_wise
from voile.pipelines.calibration import Calibration, split_open_rows
from voile.privacy.accounting import PrivacyLoss
from voile.privacy.events import Composed, from_dict
from voile.records.audit_log import ParticipationRecord, Policy, SigningKey, decode_record
from voile.records.ledger.event_text import event_for_log, event_text
from voile.records.vault import open_vault
from voile.release import PostProcessed
from voile.training import arrays_of

CLINIC = clinic_federation(60, seed=4)
CHOSEN = ("city", "coast", "harbour")
BOOKS = ("log.db", "audit.checkpoint", "replay.key")


def write_csv(data: Dataset, path: Path) -> None:
    table = data.schema.table(data.rows)
    label = data.schema.label
    assert label is not None
    names = [data.label_names[int(value)] for value in data.labels]
    columns = {**table, label.name: names}
    lines = [tuple(columns), *zip(*columns.values(), strict=True)]
    path.write_text("".join(",".join(map(str, line)) + "\n" for line in lines))


def write_files(folder: Path) -> Path:
    """Three hospitals, a held-out one, a schema, and the files of their federation."""
    (folder / "schema.toml").write_text(CLINIC.schema.dumps())
    clients = []
    for name in CHOSEN:
        data = CLINIC.hospitals[name]
        write_csv(data, folder / f"{name}.csv")
        clients.append(f'[[clients]]\nname = "{name}"\ndata = "{name}.csv"\nrows = {len(data)}\n')
    write_csv(CLINIC.hospitals["mountain"], folder / "held-out.csv")
    single = folder / "single.toml"
    single.write_text(
        'name = "study v1"\nschema = "schema.toml"\n'
        "[privacy]\nepsilon = 3\ndelta = 1e-4\n"
        "[training]\nrounds = 3\nhidden = [16]\ndistillation_steps = 20\n"
        + "".join(clients)
        + '[[held_out]]\nname = "mountain"\ndata = "held-out.csv"\n'
    )
    return split(single, folder)


def party(job: Job, name: str) -> Party:
    return next(each for each in job.parties if each.name == name)


def agreed(job: Job, **changes: Any) -> Job:
    """The same with another agreement."""
    return replace(job, agreement=replace(job.agreement, **changes))


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Job:
    return read_job(write_files(tmp_path_factory.mktemp("study")))


@pytest.fixture(scope="module")
def artefact(job: Job) -> Artefact:
    return federate(job).artefact


# --- the artefact ---------------------------------------------------------------------------------


def test_an_artefact_is_read_again_from_its_folder_alone(artefact: Artefact) -> None:
    again = load_artefact(str(artefact.folder))
    rows = again.reference[:4]
    said = again.predict(again.schema.table(rows))
    assert np.array_equal(said, again.model.predict(rows))
    assert np.array_equal(said, again.predict(rows))
    assert again.schema == CLINIC.schema
    assert np.array_equal(again.model.predict(rows), artefact.model.predict(rows))
    assert row_wise(again.model) is RowWise.KNOWN
    assert isinstance(again.explainer, FastShap)
    assert again.surrogate.predict(rows).shape == (4, 2)
    assert {row.outcome for row in again.history} == {Outcome.ANSWERED}
    assert len(again.history) == 2 * 3 * len(CHOSEN)


def test_the_model_that_is_saved_is_calibrated_and_so_is_all_that_explains_it(
    job: Job, artefact: Artefact
) -> None:
    """On some of the unprotected rows, and judged on the others."""
    done = federate(job)
    plain = artefact.figures["calibration"]
    found = Calibration.from_plain(plain)
    for stage, network in (
        ("black box", artefact.network.network),
        ("surrogate", artefact.surrogate.network),
        ("surrogate", artefact.explainer.surrogate.network),
    ):
        folded = found.fold(done.results[stage].arrays)
        saved = arrays_of(network)
        assert all(np.array_equal(saved[name], folded[name]) for name in folded)
    assert digest_of_arrays(artefact.trained) == artefact.settings["arrays"]["black box"]
    fitted, measured = split_open_rows(job.server.held_out)
    assert plain["rows"] == len(fitted) > 0
    assert artefact.figures["measured_on"] == f"{len(measured)} rows listed as unprotected"
    log_loss = artefact.figures["quality"]["black box"]["figures"]["log-loss"]
    said = np.asarray(artefact.predict(measured.rows), float)
    mean = log_losses(said, measured.labels.astype(int)).mean()
    assert log_loss["figure"] == pytest.approx(mean)
    page = report_html(artefact)
    assert f"calibrated on {len(fitted)} other" in page
    assert "log-loss of the black box" in page
    assert f"{log_loss['linear_model']:.3f}" in page


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
    with pytest.raises(VerificationFailed, match="was changed or deleted"):
        load_artefact(copy.folder)


def test_each_clients_ledger_agrees_with_its_own_log(job: Job, artefact: Artefact) -> None:
    assert artefact.guarantees
    for client in CHOSEN:
        folder = party(job, client).folder
        with open_vault(folder, origin_of("study v1", client)) as books:
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
    with pytest.raises(UnreadableFile, match="not a finished artefact"):
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
    with pytest.raises(UnreadableFile, match="expected a file, found a link"):
        load_artefact(copy)
    (copy / "schema.toml").unlink()
    (tmp_path / "schema.toml").rename(copy / "schema.toml")
    (copy / "logs").rename(tmp_path / "logs")
    (copy / "logs").symlink_to(tmp_path / "logs")
    with pytest.raises(UnreadableFile, match="expected a file, found a link"):
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
    assert not re.findall(r"""(?:src|href)=["'](?!#)""", page)
    for text in ("What is promised", "What is not covered", "How to verify", *CHOSEN):
        assert text in page
    assert page.count("signed and complete") == 1 + len(CHOSEN)
    assert "In the folder that holds this artefact:</p>\n<pre>voile audit verify artefact/" in page
    assert "Ask each party for its own policy" in page
    assert page.count('<svg class="picture" role="img" aria-label="') == 5
    names = re.findall(r' id="([^"]+)"', page)
    assert len(names) == len(set(names)), "each part of a picture by a name of its own"
    assert set(re.findall(r'(?:href="#|url\(#)([^")]+)', page)) <= set(names)
    assert "#000000" not in page, "what a page draws in black cannot be seen in the dark"
    assert report_html(artefact) == page, "the same artefact makes the same page"


def test_the_picture_of_importance_shows_what_the_noise_leaves_open(artefact: Artefact) -> None:
    """With the ± that single explanations of the same artefact have."""
    found = importance(artefact)
    assert found is not None
    shown = found.describe(schema=artefact.schema)
    assert artefact.deviations is not None
    assert shown.uncertainty is Uncertainty.ESTIMATE
    for each in shown.outputs[0].contributions:
        assert each.high is not None
        assert each.high - each.amount == pytest.approx(2 * artefact.deviations[each.feature])
    page = report_html(artefact)
    picture = page.partition('aria-label="importance of features"')[2].partition("</svg>")[0]
    assert "opacity: 0.35" in picture, "what cannot be told from zero is pale"
    assert "± is a rough estimate" in page


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
    again = read_job(artefact.folder.parents[1] / "federation.toml")
    assert federate(again).artefact.folder == artefact.folder
    assert {path: path.read_bytes() for path in _files(kept)} == before


def test_rows_that_no_run_has_written_are_not_overwritten(job: Job, tmp_path: Path) -> None:
    (tmp_path / EXAMPLE).write_text("mine")
    with pytest.raises(InvalidInput, match="not from this run"):
        federate(replace(job, server=replace(job.server, folder=tmp_path)))
    assert [path.name for path in tmp_path.iterdir()] == [EXAMPLE]


def _files(kept: list[Path]) -> list[Path]:
    found = [path for each in kept for path in (each, *each.rglob("*"))]
    return sorted(path for path in found if path.is_file())


def test_arrays_of_one_promise_are_never_shown_under_another(job: Job, artefact: Artefact) -> None:
    """Not from checkpoints, not where accounts were charged, nor from stored updates."""
    assert artefact.guarantees[0].epsilon > 2
    stricter, folder = agreed(job, epsilon=0.5), job.server.folder
    with pytest.raises(Refused, match=r"checkpoints.* under another agreement"):
        federate(stricter)
    shutil.move(folder / "checkpoints", folder / "moved")
    try:
        with pytest.raises(Refused, match=r"has opened its account .* another plan"):
            federate(stricter)
        for client in CHOSEN:
            for part in BOOKS:
                (party(job, client).folder / part).rename(folder / f"{client}.{part}")
        with pytest.raises(Refused, match=r"'city' has an update .* made under another agreement"):
            federate(stricter)
    finally:
        shutil.rmtree(folder / "checkpoints", ignore_errors=True)
        shutil.move(folder / "moved", folder / "checkpoints")
        for client in CHOSEN:
            for part in BOOKS:
                (folder / f"{client}.{part}").replace(party(job, client).folder / part)
    assert load_artefact(artefact.folder).guarantees == artefact.guarantees


def test_protected_files_can_be_neither_public_nor_at_two_clients(tmp_path: Path) -> None:
    config = write_files(tmp_path)
    (tmp_path / "link.csv").symlink_to(tmp_path / "city.csv")
    for file, before, after in (
        ("server.toml", 'data = "held-out.csv"', 'data = "city.csv"'),
        ("nodes/coast/node.toml", "coast.csv", "link.csv"),
        ("server.toml", "# reference = ", 'reference = "city.csv" # '),
    ):
        path = tmp_path / file
        text = path.read_text()
        assert before in text
        path.write_text(text.replace(before, after))
        with pytest.raises(Refused, match="name the same file"):
            read_job(config)
        path.write_text(text)


def test_sizes_are_public_so_add_or_remove_is_refused(job: Job) -> None:
    with pytest.raises(Refused, match="add or remove"):
        _ = agreed(job, protected=row_of("study v1", Relation.ADD_OR_REMOVE_ONE)).agreement.plan


def test_nobody_is_called_server(job: Job) -> None:
    with pytest.raises(InvalidInput, match="server"):
        agreed(job, sizes={"server": 60}, keys={"server": job.agreement.keys["city"]})


def test_a_broken_run_is_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = read_job(write_files(tmp_path))

    def broken(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(workflow, "write_artefact", broken)
        with pytest.raises(KeyboardInterrupt):
            federate(job)
    assert not (job.server.folder / "artefact").exists()
    done = federate(job)
    lines = (done.artefact.log_folder("city") / "records.jsonl").read_bytes().splitlines()
    assert len(lines) == 7  # the opening and six participations: nothing was trained twice


def test_a_federation_in_which_nobody_can_take_part_shows_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = read_job(write_files(tmp_path))

    def refuse(*_: object) -> None:
        raise Refused("not today")

    monkeypatch.setattr(ClientBooks, "before_participation", refuse)
    with pytest.raises(Refused, match=r"no client contributed .* not today"):
        federate(job)
    assert not (job.server.folder / "artefact").exists()


def test_only_public_facts_about_files_can_be_wrong(tmp_path: Path) -> None:
    config = write_files(tmp_path)
    city = tmp_path / "city.csv"
    text = city.read_text()
    lines = text.splitlines()
    broken = ["nan"] * (lines[0].count(",") + 1)
    city.write_text("\n".join([lines[0], ",".join(broken), *lines[2:]]) + "\n")
    whole = party(read_job(config), "city").records.rows
    assert len(whole) == len(CLINIC.hospitals["city"])
    for damage in (b"", b"\xff", b'"', lines[1].encode() + b",1"):  # of one record, not of the file
        others = [line.encode() for line in lines[2:]]
        city.write_bytes(b"\n".join([lines[0].encode(), damage, *others]) + b"\n")
        assert np.array_equal(party(read_job(config), "city").records.rows[1:], whole[1:])
    city.write_text("\n".join(lines[:-1]) + "\n")
    with pytest.raises(Refused, match="declared 102 rows but has 101, so it does not take part"):
        federate(read_job(config))
    city.write_text(text.replace("age,", "years,", 1))
    with pytest.raises(InvalidInput, match="columns that are not there: 'age'"):
        read_job(config)


def with_numbers(schema: str) -> str:
    return schema.replace('["no", "yes"]', '["0", "1"]').replace('default = "no"', 'default = "0"')


def test_a_schema_that_slipped_is_found_before_anything_is_charged(tmp_path: Path) -> None:
    """In the held-out file, which nobody protects; clients' files are not looked at for it."""
    config = write_files(tmp_path)
    schema = tmp_path / "schema.toml"
    text = schema.read_text()
    schema.write_text(with_numbers(text))
    with pytest.raises(InvalidInput, match=r"held-out\.csv: does not fit .*'readmitted' has"):
        read_job(config)
    assert not (tmp_path / "output" / "checkpoints").exists()
    schema.write_text(text)
    held_out = tmp_path / "held-out.csv"
    lines = held_out.read_text().splitlines()
    held_out.write_text("\n".join([*lines, "," * lines[0].count(",")]) + "\n")
    job, said = read_job(config), list[str]()
    (remark,) = job.server.remarks
    assert "'readmitted' is empty in 1 of" in remark
    with pytest.raises(Refused, match="accepts at most"):
        federate(agreed(job, delta=2.0), say=said.append)
    assert said[0] == remark
    (tmp_path / "city.csv").write_text((tmp_path / "city.csv").read_text().replace("yes", "1"))
    read_job(config)


def test_numbers_written_as_floats_are_the_categories_that_were_meant(tmp_path: Path) -> None:
    """Whole numbers become 1.0 in many programs as soon as one of them is missing."""
    config = write_files(tmp_path)
    before = party(read_job(config), "city").records
    schema = tmp_path / "schema.toml"
    schema.write_text(with_numbers(schema.read_text()))
    for name in (*CHOSEN, "held-out"):
        path = tmp_path / f"{name}.csv"
        path.write_text(path.read_text().replace(",no", ",0.0").replace(",yes", ",1.0"))
    job = read_job(config)
    assert job.server.remarks == ()
    assert np.array_equal(party(job, "city").records.labels, before.labels)
    assert np.array_equal(party(job, "city").records.rows, before.rows)


def test_reference_rows_come_from_a_file_or_from_the_schema(tmp_path: Path) -> None:
    config = write_files(tmp_path)
    drawn = read_job(config).server.reference
    assert np.array_equal(CLINIC.schema.clamp(drawn), drawn)
    server = tmp_path / "server.toml"
    server.write_text('reference = "held-out.csv"\n' + server.read_text())
    assert len(read_job(config).server.reference) == len(CLINIC.hospitals["mountain"])


# --- what is whose --------------------------------------------------------------------------------


def test_a_node_takes_no_part_in_what_it_did_not_agree_to(job: Job) -> None:
    city = party(job, "city")
    assert city.accepts is not None
    other_key = {**job.agreement.keys, "city": job.agreement.keys["coast"]}
    for changed, accepts, message in (
        (agreed(job, epsilon=9.0), city.accepts, r"accepts at most \(ε = 3, δ = 0\.0001\)"),
        (agreed(job, delta=1e-3), city.accepts, "accepts at most"),
        (job, replace(city.accepts, agreement="0" * 64), "accepted the agreement 0000"),
        (agreed(job, keys=other_key), city.accepts, "this folder belongs to"),
    ):
        with (
            pytest.raises(VoileError, match=message),
            open_node(replace(city, accepts=accepts), changed.agreement),
        ):
            raise AssertionError("it takes part")
    stranger = replace(city, name="stranger")
    with pytest.raises(Refused, match="is not a party"), open_node(stranger, job.agreement):
        raise AssertionError("it takes part")


def test_every_fact_is_part_of_the_agreement(job: Job) -> None:
    keys = dict(zip(CHOSEN, (job.agreement.keys[n] for n in CHOSEN[::-1]), strict=True))
    changes: list[dict[str, Any]] = [
        {"epsilon": 2.5},
        {"delta": 2e-4},
        {"sizes": {**job.agreement.sizes, "city": 103}},
        {"keys": keys},
        {"rounds": 4},
        {"participations": 2},
        {"hidden": (8,)},
        {"protected": row_of("study v1", Relation.REPLACE_ONE)},
        {"protected": row_of("study v2")},
        {"schema": replace(job.agreement.schema, name="another")},
    ]
    digests = {agreed(job, **change).agreement.digest for change in changes}
    assert len(digests | {job.agreement.digest}) == 1 + len(changes)
    assert replace(job.agreement).digest == job.agreement.digest


def test_messages_and_records_name_the_agreement(job: Job, artefact: Artefact) -> None:
    assert artefact.settings["agreement"] == job.agreement.digest
    for name in ("server", *CHOSEN):
        lines = (artefact.log_folder(name) / "records.jsonl").read_bytes().splitlines()
        named = [getattr(record, "agreement", None) for record in map(decode_record, lines)]
        assert named.count(job.agreement.digest) == 6


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda files: {**files, "more.txt": b""}, "other files"),
        (lambda files: {n: c for n, c in files.items() if n != "checkpoint.txt"}, "other files"),
        (lambda files: {**files, "records.jsonl": files["records.jsonl"][:-1] + b"x"}, "verify"),
        (lambda files: {**files, "records.jsonl": b"{}\n"}, "verify"),
        (lambda files: {**files, "audit-policy.toml": b"\xff"}, "policy of"),
    ],
)
def test_a_log_that_does_not_hold_is_not_shown(
    job: Job, artefact: Artefact, spoil: Any, message: str
) -> None:
    folder = artefact.log_folder("city")
    files = {path.name: path.read_bytes() for path in folder.iterdir()}
    rows = [row for row in artefact.history if row.client == "city"]
    closed = Closed("city", job.agreement.digest, files)
    assert checked_log("city", closed, job.agreement, rows) == files
    with pytest.raises(Refused, match=message):
        checked_log("city", replace(closed, files=spoil(files)), job.agreement, rows)


def test_a_log_of_another_or_without_a_charge_is_not_shown(job: Job, artefact: Artefact) -> None:
    def files_of(name: str) -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in artefact.log_folder(name).iterdir()}

    rows = [row for row in artefact.history if row.client == "city"]
    foreign = Closed("city", job.agreement.digest, files_of("coast"))
    with pytest.raises(Refused, match="not signed with the agreed key"):
        checked_log("city", foreign, job.agreement, rows)
    own = Closed("city", job.agreement.digest, files_of("city"))
    with pytest.raises(Refused, match="holds no charge for it"):
        checked_log("city", own, job.agreement, [replace(rows[0], round=4)])
    with pytest.raises(Refused, match="did not answer with its log"):
        checked_log("city", replace(own, client="coast"), job.agreement, rows)


def test_the_server_opens_nobodys_books(job: Job, tmp_path: Path) -> None:
    """It is given messages alone: a transport, an agreement, and its own side."""
    said: list[str] = []
    server = replace(job.server, folder=tmp_path / "elsewhere")
    with ExitStack() as stack:
        nodes = [stack.enter_context(open_node(each, job.agreement)) for each in job.parties]
        silent = [replace(node, signed_log=refusing) for node in nodes]
        with pytest.raises(Refused, match=r"has not sent its log: refused .*not today"):
            run_server(job.agreement, server, Threads(silent), say=said.append)
        done = run_server(job.agreement, server, Threads(nodes), say=said.append)
    assert check_log(done.artefact, "city").failed is None
    assert {row.outcome for row in done.artefact.history} == {Outcome.RESENT}


def refusing() -> dict[str, bytes]:
    raise Refused("not today")


def test_a_single_file_of_the_earlier_form_names_the_command_that_splits_it(
    tmp_path: Path,
) -> None:
    write_files(tmp_path)
    with pytest.raises(InvalidInput, match=r"voile init .*single\.toml --output FOLDER"):
        read_job(tmp_path / "single.toml")


# --- one agreement, one run, one ledger -----------------------------------------------------------


def broken_off(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ends after the second round."""
    told: list[object] = []

    def after_round(books: Any, report: Any) -> None:
        written(books, report)
        told.append(report)
        if len(told) == 2:
            raise KeyboardInterrupt

    written = ServerBooks.after_round
    with monkeypatch.context() as patch:
        patch.setattr(ServerBooks, "after_round", after_round)
        with pytest.raises(KeyboardInterrupt):
            federate(job)


def charges(job: Job) -> dict[str, int]:
    """How many records each party's log holds."""
    found = {}
    for each in job.parties:
        with sqlite3.connect(each.folder / "log.db") as database:
            (found[each.name],) = database.execute("select count(*) from audit_leaves").fetchone()
    return found


def test_an_agreement_that_changed_after_the_run_began_is_refused_before_anything_is_charged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else its charges would name two agreements, and no artefact could ever be made of them."""
    config = write_files(tmp_path)
    job = read_job(config)
    broken_off(job, monkeypatch)
    before = charges(job)
    schema = tmp_path / "schema.toml"
    text = schema.read_text()
    schema.write_text(text.replace('name = "clinic', 'name = "another clinic', 1))
    assert schema.read_text() != text
    with pytest.raises(Refused, match=r"checkpoints.* under another agreement"):
        federate(read_job(config))
    elsewhere = read_job(config)
    elsewhere = replace(elsewhere, server=replace(elsewhere.server, folder=tmp_path / "other"))
    with pytest.raises(Refused, match=r"has taken part in .* under another agreement"):
        federate(elsewhere)
    assert charges(job) == before
    schema.write_text(text)
    assert len(federate(read_job(config)).artefact.history) == 18
    assert set(charges(job).values()) == {7}


def test_a_server_does_not_continue_rounds_of_another_agreement(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = read_job(write_files(tmp_path))
    broken_off(job, monkeypatch)
    other = agreed(job, schema=replace(job.agreement.schema, name="another"))
    with pytest.raises(Refused, match="under another agreement"):
        run_server(other.agreement, job.server, Threads([Silent(name) for name in CHOSEN]))


def test_a_server_refuses_rounds_of_a_later_stage_before_it_asks_anybody(
    job: Job, artefact: Artefact, tmp_path: Path
) -> None:
    """Else everything is spent on the first stage when they are found."""
    assert artefact.guarantees
    shutil.copytree(job.server.folder / "checkpoints", tmp_path / "new" / "checkpoints")
    for path in (tmp_path / "new" / "checkpoints").glob("black*"):
        path.unlink()
    server = replace(job.server, folder=tmp_path / "new")
    with pytest.raises(Refused, match=r"surrogate\.0.* under another agreement"):
        run_server(job.agreement, server, Threads([Silent(name) for name in CHOSEN]))


def test_for_a_complete_run_nobody_is_asked_anything(job: Job, artefact: Artefact) -> None:
    again = run_server(job.agreement, job.server, Threads([Silent(name) for name in CHOSEN]))
    assert again.artefact.guarantees == artefact.guarantees


@dataclass
class Silent:
    """A node that must not be asked."""

    name: str

    def handle(self, message: object) -> object:
        raise AssertionError(message)


def test_a_party_with_a_second_key_takes_no_part(tmp_path: Path) -> None:
    """The server would refuse its log in the end, when everything is spent."""
    job = read_job(write_files(tmp_path))
    city = party(job, "city")
    path = city.folder / "audit-policy.toml"
    second = SigningKey.generate(job.agreement.keys["city"].name).verifier
    both = Policy(second.name, (job.agreement.keys["city"], second))
    path.write_text(str(both))
    with pytest.raises(Refused, match="signs with other keys than the agreement says"):
        federate(job)
    assert not (city.folder / "updates").exists()


def test_what_a_party_accepts_counts_for_all_that_its_ledger_knows(tmp_path: Path) -> None:
    """A new name in the public file is no new budget."""
    job = read_job(write_files(tmp_path))
    with open_node(party(job, "city"), job.agreement) as node:
        stage = job.agreement.plan.stages[0].name
        start = job.agreement.plan.start(stage)
        node.handle(Instruction(stage, 1, start, agreement=job.agreement.digest))
    renamed = agreed(job, protected=row_of("study v2"), epsilon=0.5).agreement
    with (
        open_node(party(job, "city"), renamed) as node,
        pytest.raises(Refused, match=r"all that its ledger has promised.*'study v1: city'"),
    ):
        node.handle(Joining(renamed.digest))


def test_two_runs_at_once_do_not_share_a_folder(tmp_path: Path) -> None:
    job = read_job(write_files(tmp_path))
    busy = "another run of a federation is using this folder"
    with open_node(party(job, "city"), job.agreement), pytest.raises(StorageBusy, match=busy):
        federate(job)
    with run_lock(job.server.folder), pytest.raises(StorageBusy, match=busy):
        federate(job)
    assert set(charges(job).values()) == {0}


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("rounds = 3", "rounds = 3\nparticipatons = 1", "did you mean 'participations'"),
        ("rounds = 3", "rounds = 2\nparticipations = 5", "cannot exceed rounds"),
        ("hidden = [16]", "hidden = {a = 1}", r"training\.hidden"),
        # Left out in silence, rows would be promised something else than their owner wrote.
        ("epsilon = 3", 'epsilon = 3\ncolumns = ["age"]', r"privacy\.columns"),
        ("epsilon = 3", "epsilon = 3\nmembers_count = 0.1", r"privacy\.members_count"),
    ],
)
def test_what_is_wrong_in_a_single_file_is_told_before_it_is_split(
    tmp_path: Path, before: str, after: str, message: str
) -> None:
    write_files(tmp_path)
    single = tmp_path / "single.toml"
    single.write_text(single.read_text().replace(before, after))
    with pytest.raises(InvalidInput, match=message):
        split(single, tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_all_settings_of_a_single_file_are_kept(tmp_path: Path) -> None:
    write_files(tmp_path)
    single = tmp_path / "single.toml"
    text = 'output = "results"\n' + single.read_text()
    single.write_text(text.replace("rounds = 3", "rounds = 3\nparticipations = 2"))
    job = read_job(split(single, tmp_path / "new"))
    assert job.server.folder.resolve() == tmp_path / "results"
    assert job.server.distillation.steps == 20
    found = job.agreement
    assert (found.rounds, found.participations, found.hidden) == (3, 2, (16,))


def test_many_features_are_sampled_and_the_run_ends(tmp_path: Path) -> None:
    """Above 20 features a run was charged and then failed: it asked for exact values."""
    names = [f"f{number}" for number in range(21)]
    features = tuple(Feature(name, Numbers(0, 1)) for name in names)
    schema = Schema("wide", features, label=Label("sick", Categories(("no", "yes"))))
    draw = np.random.default_rng(0)
    for name, rows in (("north", 40), ("south", 40), ("held-out", 30)):
        lines = [",".join([*names, "sick"])]
        for row in draw.uniform(0, 1, (rows, 21)).round(3):
            lines.append(",".join([*map(str, row), "yes" if row[0] > 0.5 else "no"]))
        (tmp_path / f"{name}.csv").write_text("\n".join(lines) + "\n")
    (tmp_path / "schema.toml").write_text(schema.dumps())
    clients = "".join(
        f'[[clients]]\nname = "{name}"\ndata = "{name}.csv"\nrows = 40\n'
        for name in ("north", "south")
    )
    single = tmp_path / "single.toml"
    single.write_text(
        'name = "wide v1"\nschema = "schema.toml"\n[privacy]\nepsilon = 3\ndelta = 1e-4\n'
        "[training]\nrounds = 1\nhidden = [4]\ndistillation_steps = 2\n"
        f'{clients}[[held_out]]\nname = "open"\ndata = "held-out.csv"\n'
    )
    done = federate(read_job(split(single, tmp_path))).artefact
    assert done.figures["distilled_explainer"]["sampled"] is True
    assert "to sampled values of the surrogate" in report_html(done)
