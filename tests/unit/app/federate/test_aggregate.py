"""`pipeline = "aggregate"`: what matters to a model that exists, over the rows of all parties."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.support.pages import report_html
from tests.unit.app.federate.test_run import CHOSEN, CLINIC, write_csv, write_files

from voile.app.artefact import Artefact
from voile.app.federate import Job, federate, read_job
from voile.app.federate.preview import preview
from voile.app.report import check_log
from voile.core.errors import InvalidInput, Refused
from voile.core.row_note import KnownNote
from voile.federation.secure_aggregation import HonestButCurious

OPTIONS = """
[options]
model = "risk.onnx"
model_origin = "public"
background = "public.csv"
output_range = [0.0, 1.0]
output_name = "output 1"
"""


def write_model(path: Path) -> None:
    """A model of somebody else: a logistic regression without privacy, on public rows."""
    to_onnx = pytest.importorskip("skl2onnx").to_onnx
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    draw = np.random.default_rng(0)
    labels = draw.random(len(CLINIC.reference)) < CLINIC.risk(CLINIC.reference)
    model = make_pipeline(StandardScaler(), LogisticRegression(C=0.1))
    model.fit(CLINIC.reference, labels.astype(int))
    made: Any = to_onnx(model, CLINIC.reference[:1].astype(np.float32), options={"zipmap": False})
    path.write_bytes(made.SerializeToString())


def write_aggregate(folder: Path, epsilon: float = 3.0) -> Path:
    config = write_files(folder)
    write_model(folder / "risk.onnx")
    data = CLINIC.hospitals["mountain"]
    write_csv(replace(data, rows=data.rows[:10], labels=data.labels[:10]), folder / "public.csv")
    text = re.sub("(?m)^(rounds|hidden) = .*$", "", config.read_text())
    text = text.replace("private explainer", "aggregate", 1)
    text = re.sub("(?m)^epsilon = [0-9.]+", f"epsilon = {epsilon}", text, count=1)
    config.write_text(text.replace("[privacy]", f"{OPTIONS}\n[privacy]", 1))
    server = folder / "server.toml"
    server.write_text(server.read_text().split("[[held_out]]")[0])
    return config


pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning")


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Job:
    return read_job(write_aggregate(tmp_path_factory.mktemp("aggregate")))


@pytest.fixture(scope="module")
def artefact(job: Job) -> Artefact:
    return federate(job).artefact


def test_it_leaves_the_mean_of_what_parties_released(job: Job, artefact: Artefact) -> None:
    found = artefact.importance
    assert found is not None
    plan: Any = job.agreement.plan
    rows = [CLINIC.hospitals[name].rows for name in CHOSEN]
    explainer = plan.release.importance.explainer
    exact = np.abs(explainer(np.concatenate(rows)).values).mean(axis=0)
    assert found.standard_errors is not None
    off = np.abs(found.values[0] - exact).max()
    assert found.standard_errors.max() / 20 < off < 6 * found.standard_errors.max()
    assert found.carries(KnownNote.ABSOLUTE)
    assert not found.carries(KnownNote.NOT_CHARGED)


def test_its_promise_holds_for_all_parties_jointly(job: Job, artefact: Artefact) -> None:
    (guarantee,) = artefact.guarantees
    assert guarantee.epsilon <= job.agreement.epsilon
    assert guarantee.protected == job.agreement.protected
    assert "3 silos in parallel" in guarantee.composition
    assert {row.client for row in artefact.history} == set(CHOSEN)
    assert all(check_log(artefact, name).failed is None for name in ("server", *CHOSEN))
    assert artefact.importance is not None
    assert artefact.importance.guarantees == artefact.guarantees


def test_its_report_shows_the_importance_and_no_model(artefact: Artefact) -> None:
    page = report_html(artefact)
    assert "Mean absolute Shapley values over the rows of all parties, with noise" in page
    assert "How good it is" not in page
    assert "voile explain" not in page
    assert "rows listed as held out" not in page
    with pytest.raises(Refused, match="what matters to a model, and not the model"):
        _ = artefact.model


def test_what_it_will_be_like_is_said_and_too_much_noise_is_blocking(
    job: Job, tmp_path: Path
) -> None:
    told = preview(job.agreement, job.server)
    assert told.blocking == ()
    assert "noise of standard deviation" in str(told)
    loud = read_job(write_aggregate(tmp_path, epsilon=0.05))
    assert any("noise hides" in each.text for each in preview(loud.agreement, loud.server).blocking)


def test_another_model_or_background_is_another_agreement(job: Job, tmp_path: Path) -> None:
    config = write_aggregate(tmp_path)
    before = read_job(config).agreement.options.stated
    assert set(before) == {
        "model", "model_origin", "background", "output_range", "output_name"
    }  # fmt: skip
    assert before == job.agreement.options.stated
    public = tmp_path / "public.csv"
    public.write_text("\n".join(public.read_text().splitlines()[:-1]) + "\n")
    after = read_job(config).agreement.options.stated
    assert {key for key in before if before[key] != after[key]} == {"background"}
    assert replace(job.agreement, options=None).digest != job.agreement.digest


def test_in_secret_the_server_sees_the_mean_alone(job: Job) -> None:
    secret = replace(
        job.agreement,
        secure=HonestButCurious(1),
        server_key=next(iter(job.agreement.keys.values())),
    )
    plan: Any = secret.plan
    explained = plan.aggregate(CHOSEN, plan.start("importance")).explanation()
    assert any("added up in secret" in str(note) for note in explained.notes)
    assert plan.guarantee().computational


@pytest.mark.parametrize(
    ("slip", "words"),
    [
        (('model = "risk.onnx"', 'modle = "risk.onnx"'), "needs `model`"),
        (("output_range = [0.0, 1.0]", "output_range = 1"), "output_range"),
    ],
)
def test_options_that_are_wrong_are_named(
    tmp_path: Path, slip: tuple[str, str], words: str
) -> None:
    config = write_aggregate(tmp_path)
    config.write_text(config.read_text().replace(*slip))
    with pytest.raises(InvalidInput, match=words):
        read_job(config)
