"""A pipeline that is not FastSHAP++, from its files to an artefact, a report and explanations."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.support.pages import report_html
from tests.unit.app.federate.test_run import CHOSEN, CLINIC, write_files

from voile import open_workspace
from voile.app.artefact import Artefact, load_artefact
from voile.app.federate import Job, federate, read_job
from voile.app.federate.kinds import GUIDED, KINDS, NetworkKind
from voile.app.report import check_log
from voile.core.errors import InvalidInput, Refused
from voile.core.guarantee import ProtectedUnit
from voile.federation import CoordinateMedian, Pipeline, PlainRound
from voile.federation.secure_aggregation import HonestButCurious


def write_logistic(folder: Path) -> Path:
    config = write_files(folder)
    text = config.read_text().replace("private explainer", "logistic regression", 1)
    config.write_text(text.replace("hidden = [16]\n", ""))
    return config


def test_a_declared_number_of_records_is_agreed_on_promised_and_told(tmp_path: Path) -> None:
    config = write_logistic(tmp_path)
    before = read_job(config).agreement.digest
    text = config.read_text()
    config.write_text(text.replace("delta = 0.0001", "delta = 0.0001\nrecords_per_person = 2", 1))
    job = read_job(config)
    assert job.agreement.digest != before
    assert job.agreement.records_per_person == 2
    artefact = federate(job).artefact
    (promise,) = load_artefact(artefact.folder).guarantees
    assert promise.records_per_person == 2
    shown = report_html(artefact)
    assert "A person, with at most 2 records (declared, and checked by nobody)" in shown
    assert "A person with 5 records" not in shown
    assert "at most 2 records belong to one person" in shown
    for slip in ("0", "2.5", '"2"'):
        config.write_text(
            text.replace("delta = 0.0001", f"delta = 0.0001\nrecords_per_person = {slip}", 1)
        )
        with pytest.raises(InvalidInput, match="records_per_person"):
            read_job(config)


def with_aggregator(config: Path, name: str) -> Path:
    config.write_text(
        config.read_text().replace("[training]", f'[training]\naggregator = "{name}"')
    )
    return config


@pytest.mark.parametrize("pipeline", ["logistic regression", "private explainer", "trusted"])
def test_parties_may_be_drawn_to_the_common_arrays(pipeline: str, tmp_path: Path) -> None:
    """FedProx: part of the agreement, in every stage, at the same cost."""
    config = write_logistic(tmp_path)
    text = config.read_text().replace("logistic regression", pipeline, 1)
    config.write_text(text)
    plain = read_job(config).agreement
    config.write_text(text + "\n[options]\nproximal = 0.25\n")
    drawn = read_job(config).agreement
    assert drawn.digest != plain.digest
    assert drawn.plan.participation_events == plain.plan.participation_events
    for one, strength in ((plain, 0.0), (drawn, 0.25)):
        tasks: list[Any] = [stage.task for stage in one.plan.stages]
        networks = [task.local.network if hasattr(task, "local") else task for task in tasks]
        assert {network.training.proximal for network in networks} == {strength}
    for slip in ("-0.1", "0", "true", "nan", '"0.1"'):
        config.write_text(text + f"\n[options]\nproximal = {slip}\n")
        with pytest.raises(InvalidInput, match="proximal \\(FedProx\\), a number above 0"):
            read_job(config)


def test_a_federation_chooses_its_aggregator(tmp_path: Path, job: Job) -> None:
    agreement = read_job(with_aggregator(write_logistic(tmp_path), "median")).agreement
    assert agreement.digest != replace(agreement, aggregator="mean").digest
    assert {stage.protocol for stage in agreement.plan.stages} == {PlainRound(CoordinateMedian())}
    assert agreement.plan.participation_events == job.agreement.plan.participation_events


def test_the_chosen_aggregator_is_the_one_that_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, combined = CoordinateMedian.combine, []

    def combine(self: CoordinateMedian, contributions: Any, memory: Any) -> Any:
        combined.append(len(contributions))
        return whole(self, contributions, memory)

    monkeypatch.setattr(CoordinateMedian, "combine", combine)
    job = read_job(with_aggregator(write_logistic(tmp_path), "median"))
    assert federate(job).artefact.folder.is_dir()
    assert set(combined) == {len(CHOSEN)}
    assert len(combined) >= job.agreement.rounds


@pytest.mark.parametrize(
    ("name", "reason"), [("krum", "needs 5 parties"), ("average", "one of 'mean', 'adam'")]
)
def test_an_aggregator_that_does_not_fit_is_refused(tmp_path: Path, name: str, reason: str) -> None:
    with pytest.raises(InvalidInput, match=reason):
        read_job(with_aggregator(write_logistic(tmp_path), name))


def test_pipelines_that_weigh_updates_themselves_take_no_aggregator(job: Job) -> None:
    agreement = job.agreement
    with pytest.raises(InvalidInput, match="weighs updates itself"):
        replace(agreement, pipeline="trusted", aggregator="median")
    secret: Any = {"secure": HonestButCurious(1), "server_key": next(iter(agreement.keys.values()))}
    with pytest.raises(InvalidInput, match="has to see single updates"):
        replace(agreement, aggregator="median", **secret)
    assert replace(agreement, aggregator="adam", **secret).aggregator == "adam"


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Job:
    return read_job(write_logistic(tmp_path_factory.mktemp("logistic")))


@pytest.fixture(scope="module")
def artefact(job: Job) -> Artefact:
    return federate(job).artefact


def test_it_leaves_an_artefact_with_its_model_alone(artefact: Artefact) -> None:
    names = {path.name for path in artefact.folder.iterdir()}
    assert "black_box.safetensors" in names
    assert not names & {"surrogate.safetensors", "explainer.safetensors", "explainer.onnx"}
    again = load_artefact(artefact.folder)
    assert (again.has_model, again.has_surrogate) == (True, False)
    assert again.settings["pipeline"] == "logistic regression"
    assert list(again.settings["training"]) == ["logistic regression"]
    rows = CLINIC.reference[:3]
    np.testing.assert_allclose(again.model.predict(rows).sum(axis=1), 1, atol=1e-6)
    for refused in ("surrogate", "explainer"):
        with pytest.raises(Refused, match="holds a model only"):
            getattr(again, refused)


def test_its_promise_is_the_one_that_was_agreed_on(job: Job, artefact: Artefact) -> None:
    (guarantee,) = artefact.guarantees
    assert guarantee == job.agreement.plan.guarantee()
    assert guarantee.epsilon <= job.agreement.epsilon
    assert artefact.statement["readings"]["joint"]["epsilon"] == guarantee.epsilon
    assert {row.client for row in artefact.history} == set(CHOSEN)
    assert all(check_log(artefact, name).failed is None for name in ("server", *CHOSEN))


def test_its_report_speaks_of_what_was_trained(artefact: Artefact) -> None:
    page = report_html(artefact)
    assert "Trained with differential privacy: logistic regression." in page
    assert "accuracy of the logistic regression" in page
    assert "surrogate" not in page


def test_its_workspace_explains_for_free(artefact: Artefact) -> None:
    with open_workspace(artefact.folder.parent / "voile.toml") as workspace:
        (name,) = workspace.releases
        explained = workspace.explain(name, artefact.folder.parent / "example.csv")
    assert explained.explanation.guarantees == artefact.guarantees


def test_a_complete_run_is_left_as_it_is(job: Job, artefact: Artefact) -> None:
    before = (artefact.folder / "artefact.json").read_bytes()
    assert federate(job).artefact.folder == artefact.folder
    assert (artefact.folder / "artefact.json").read_bytes() == before


def test_files_of_an_earlier_pipeline_do_not_stay(job: Job, artefact: Artefact) -> None:
    """Else a manifest would list networks that this run has not made."""
    stale = artefact.folder / "surrogate.safetensors"
    stale.write_bytes(b"of another run")
    (artefact.folder / "artefact.json").unlink()
    found = federate(job).artefact
    assert not stale.exists()
    assert (
        "surrogate.safetensors"
        not in json.loads((found.folder / "artefact.json").read_text())["files"]
    )


def test_what_does_not_fit_a_pipeline_is_refused(tmp_path: Path) -> None:
    config = write_logistic(tmp_path)
    text = config.read_text()
    config.write_text(text.replace("logistic regression", "deep thought", 1))
    with pytest.raises(InvalidInput, match=r"pipeline: expected one of 'private explainer'"):
        read_job(config)
    config.write_text(text.replace("rounds = 3", "rounds = 3\nhidden = [4]"))
    with pytest.raises(InvalidInput, match="no hidden layers"):
        _ = read_job(config).agreement.plan


@pytest.mark.parametrize(
    "kind", [name for name, kind in KINDS.items() if isinstance(kind, NetworkKind)]
)
def test_every_kind_is_part_of_the_agreement(job: Job, kind: str) -> None:
    from dataclasses import replace

    protected = job.agreement.protected
    if kind == GUIDED:
        columns = CLINIC.schema.feature_names[:1]
        protected = replace(protected, unit=ProtectedUnit.COLUMNS, columns=columns)
    other = replace(job.agreement, pipeline=kind, protected=protected)
    assert (other.digest == job.agreement.digest) is (kind == "logistic regression")
    plan: Pipeline = other.plan
    assert plan.protected == protected
    assert plan.participation_events
