"""FastSHAP++ in the setting full private, from its files to an artefact and explanations."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.support.pages import report_html
from tests.unit.app.federate.test_run import CHOSEN, write_files

from voile.app.artefact import Artefact, load_artefact
from voile.app.assess.subjects import find_subject
from voile.app.calls import handle
from voile.app.commands.explain import Explain
from voile.app.federate import Job, federate, read_job
from voile.app.report import check_log
from voile.pipelines.objectives import BLACK_BOX, EXPLAINER, SURROGATE
from voile.training import arrays_of

STAGES = (BLACK_BOX, SURROGATE, EXPLAINER)


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Job:
    config = write_files(tmp_path_factory.mktemp("full"))
    text = config.read_text().replace("private explainer", "full private explainer", 1)
    config.write_text(text)
    return read_job(config)


@pytest.fixture(scope="module")
def artefact(job: Job) -> Artefact:
    return federate(job).artefact


def test_all_three_stages_are_charged_within_what_was_agreed_on(
    job: Job, artefact: Artefact
) -> None:
    plan = job.agreement.plan
    assert [stage.name for stage in plan.stages] == list(STAGES)
    (guarantee,) = artefact.guarantees
    assert guarantee == plan.guarantee()
    assert guarantee.epsilon < job.agreement.epsilon, "joint composition beats the published sum"
    readings = artefact.statement["readings"]
    assert set(readings["stages"]) == set(STAGES)
    assert readings["published_sum"]["epsilon"] == pytest.approx(job.agreement.epsilon, rel=0.01)
    assert all(check_log(artefact, name).failed is None for name in ("server", *CHOSEN))
    assert EXPLAINER in {row.stage for row in artefact.history}


def test_the_explainer_is_the_one_that_was_trained_on_rows(job: Job, artefact: Artefact) -> None:
    again = load_artefact(artefact.folder)
    task = job.agreement.plan.tasks[EXPLAINER]
    assert {name: each.shape for name, each in arrays_of(again.explainer.network).items()} == dict(
        task.shapes
    )


def test_it_explains_for_free_under_the_guarantee_of_all_stages(artefact: Artefact) -> None:
    file = artefact.folder / "explainer.safetensors"
    rows = artefact.reference[:2]
    asked = Explain(model=str(artefact.folder), data=rows, explainer=file)
    explained = handle(asked).explained
    assert explained.explanation.guarantees == artefact.guarantees
    assert not explained.charges
    assert np.isfinite(explained.explanation.values).all()


def test_it_is_reported_on_and_can_be_assessed(artefact: Artefact) -> None:
    assert "explainer" in report_html(artefact)
    found = find_subject(Path(artefact.folder))
    assert len(found.trials) >= len(STAGES)
