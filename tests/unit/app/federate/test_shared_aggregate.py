"""`pipeline = "aggregate"` with `secure = true`: parties share the noise of one importance."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.support.pages import report_html
from tests.unit.app.federate.test_aggregate import write_aggregate
from tests.unit.app.federate.test_run import CHOSEN, CLINIC

from voile.app.artefact import Artefact
from voile.app.assess.subjects import find_subject
from voile.app.federate import Job, federate, read_job
from voile.app.federate.preview import preview
from voile.app.report import check_log
from voile.core.errors import InvalidInput, Refused
from voile.core.guarantee import Adversary
from voile.pipelines.importance import ImportancePlan

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning")


def write_shared(folder: Path, *, secure: bool = True, noise: str | None = None) -> Path:
    folder.mkdir(exist_ok=True)
    config = write_aggregate(folder)
    text = config.read_text()
    if secure:
        text = text.replace("# secure = true  ", "secure = true  ")
    if noise:
        text = text.replace("[options]", f'[options]\nnoise = "{noise}"')
    config.write_text(text)
    return config


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Job:
    return read_job(write_shared(tmp_path_factory.mktemp("shared")))


@pytest.fixture(scope="module")
def artefact(job: Job) -> Artefact:
    return federate(job).artefact


def plan_of(job: Job) -> ImportancePlan:
    plan = job.agreement.plan
    assert isinstance(plan, ImportancePlan)
    return plan


def test_it_leaves_the_mean_over_all_rows(job: Job, artefact: Artefact) -> None:
    found, plan = artefact.importance, plan_of(job)
    assert found is not None
    assert found.standard_errors is not None
    rows = [CLINIC.hospitals[name].rows for name in CHOSEN]
    explainer: Any = plan.release.importance.explainer  # type: ignore[union-attr]
    exact = np.abs(explainer(np.concatenate(rows)).values).mean(axis=0)
    off = np.abs(found.values[0] - exact).max()
    assert found.standard_errors.max() / 20 < off < 6 * found.standard_errors.max()
    assert any("added up in secret" in str(note) for note in found.notes)


def test_its_promise_names_both_adversaries_and_is_what_every_party_paid(
    job: Job, artefact: Artefact
) -> None:
    (promise,) = artefact.guarantees
    assert promise.epsilon == pytest.approx(plan_of(job).guarantee().epsilon)
    assert 0.999 * job.agreement.epsilon < promise.epsilon <= job.agreement.epsilon
    assert Adversary.SERVER_SEEING_SUMS in promise.against
    assert Adversary.SERVER_SEEING_UPDATES not in promise.against
    assert any("from a party's own share alone" in each for each in promise.assumptions)
    spent = artefact.statement["spent_by_client"]
    assert all(each["epsilon"] == pytest.approx(promise.epsilon) for each in spent.values())
    assert set(spent) == set(CHOSEN)
    assert all(check_log(artefact, name).failed is None for name in ("server", *CHOSEN))
    assert "from a party" in report_html(artefact)


def test_the_preview_says_how_noise_is_shared(job: Job, tmp_path: Path) -> None:
    said = str(preview(job.agreement, job.server))
    assert "2 honest parties of 3 give all of it" in said
    local = read_job(write_shared(tmp_path, noise="local"))
    assert "each of 3 parties adds all of the noise" in str(preview(local.agreement, local.server))
    assert not plan_of(local).shared
    assert local.agreement.digest != job.agreement.digest


def test_shared_noise_needs_a_secure_sum(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="secure = true"):
        _ = read_job(write_shared(tmp_path / "a", secure=False, noise="shared")).agreement.plan
    with pytest.raises(InvalidInput, match="noise"):
        read_job(write_shared(tmp_path / "b", noise="some"))
    assert not plan_of(read_job(write_shared(tmp_path / "c", secure=False))).shared


def test_what_is_charged_can_be_assessed(job: Job, tmp_path: Path) -> None:
    config = job.server.folder.parent / "federation.toml"
    assert [trial.name for trial in find_subject(config).trials] == ["importance, a sum"]
    local = find_subject(write_shared(tmp_path, noise="local"))
    assert [trial.name for trial in local.trials] == ["importance"]
