"""`pipeline = "statistics"`, from its files to an artefact, a report and explanations."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.support.pages import report_html
from tests.unit.app.federate.test_run import CLINIC, write_files

from voile import open_workspace
from voile.app.alarms import alarms
from voile.app.artefact import Artefact, load_artefact
from voile.app.federate import Job, federate, read_job
from voile.app.federate.preview import preview
from voile.core.errors import InvalidInput, Refused
from voile.core.guarantee import Adversary
from voile.pipelines.statistics import STAGES, StatisticsPlan

SECURE = "# secure = true  "


def write_statistics(
    folder: Path, *, secure: bool = True, epsilon: float = 8.0, options: str = ""
) -> Path:
    folder.mkdir(exist_ok=True)
    config = write_files(folder)
    text = config.read_text().replace('"private explainer"', '"statistics"', 1)
    text = text.replace("hidden =", "# ").replace("rounds = 3", "# ")
    text = text.replace("epsilon = 3.0", f"epsilon = {epsilon}", 1)
    if secure:
        text = text.replace(SECURE, "secure = true  ")
    if options:
        text = text.replace("\n[privacy]", f"{options}\n[privacy]", 1)
    config.write_text(text)
    for node in folder.glob("nodes/*/node.toml"):
        node.write_text(node.read_text().replace("epsilon = 3.0", f"epsilon = {epsilon}"))
    server = folder / "server.toml"
    kept = [s for s in server.read_text().splitlines() if not s.startswith(("reference", "disti"))]
    server.write_text("\n".join(kept) + "\n")
    return config


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Job:
    return read_job(write_statistics(tmp_path_factory.mktemp("statistics")))


@pytest.fixture(scope="module")
def artefact(job: Job) -> Artefact:
    return federate(job).artefact


def test_it_leaves_an_artefact_with_its_model_alone(job: Job, artefact: Artefact) -> None:
    found = load_artefact(artefact.folder)
    assert found.additive is not None
    assert found.reference is None
    assert found.settings["pipeline"] == "statistics"
    assert found.settings["secure_sum"]["largest_rounding_error"] == 0
    rows = CLINIC.together().rows[:50]
    assert np.allclose(found.predict(rows), found.additive.predict(rows))
    assert {row.stage for row in found.history} == set(STAGES)
    assert isinstance(job.agreement.plan, StatisticsPlan)


def test_its_promise_is_what_was_agreed_on_and_names_both_adversaries(
    job: Job, artefact: Artefact
) -> None:
    (promise,) = artefact.guarantees
    assert 0.999 * job.agreement.epsilon <= promise.epsilon <= job.agreement.epsilon
    spent = artefact.statement["spent_by_client"].values()
    assert [each["epsilon"] for each in spent] == pytest.approx([promise.epsilon] * len(spent))
    if isinstance(job.agreement.plan, StatisticsPlan) and job.agreement.plan.shared:
        assert Adversary.SERVER_SEEING_UPDATES not in promise.against
        assert any("from a party's own share alone" in each for each in promise.assumptions)


def test_its_report_and_its_workspace_say_and_explain_it(artefact: Artefact) -> None:
    assert "statistics" in report_html(artefact)
    with open_workspace(artefact.folder.parent / "voile.toml") as workspace:
        (name,) = workspace.releases
        explained = workspace.explain(name, CLINIC.hospitals["mountain"].frame().head(3))
    assert explained.explanation.values.shape[0] == 3
    assert explained.explanation.guarantees == artefact.guarantees


def test_a_complete_run_is_left_as_it_is(job: Job, artefact: Artefact) -> None:
    again = federate(job)
    assert again.was_complete
    assert again.artefact.model.digest == artefact.model.digest


def test_a_preview_says_what_it_is_like_and_that_too_little_signal_is_of_no_use(
    tmp_path: Path,
) -> None:
    good = read_job(write_statistics(tmp_path / "good"))
    said = str(preview(good.agreement, good.server))
    assert "signal" in said
    assert not preview(good.agreement, good.server).blocking
    poor = read_job(write_statistics(tmp_path / "poor", secure=False, epsilon=0.02))
    (concern,) = preview(poor.agreement, poor.server).blocking
    assert "Too little signal" in concern.text
    assert "secure = true" in concern.text


def test_noise_of_each_party_is_an_option_and_shared_noise_needs_a_secure_sum(
    tmp_path: Path,
) -> None:
    local = '\n[options]\nnoise = "local"\n'
    chosen = read_job(write_statistics(tmp_path / "local", options=local))
    default = read_job(write_statistics(tmp_path / "shared"))
    assert chosen.agreement.digest != default.agreement.digest
    assert isinstance(chosen.agreement.plan, StatisticsPlan)
    assert not chosen.agreement.plan.shared
    shared = local.replace("local", "shared")
    with pytest.raises(Refused, match="secure = true"):
        _ = read_job(
            write_statistics(tmp_path / "plain", secure=False, options=shared)
        ).agreement.plan
    with pytest.raises(InvalidInput, match="noise"):
        read_job(write_statistics(tmp_path / "odd", options=local.replace("local", "none")))


def test_without_open_rows_it_is_judged_by_the_charged_table(tmp_path: Path) -> None:
    config = write_statistics(tmp_path)
    server = tmp_path / "server.toml"
    server.write_text(server.read_text().split("[[held_out]]")[0])
    found = federate(read_job(config)).artefact
    assert "quality" not in found.figures
    charged = found.figures["charged_quality"]
    assert 0 <= charged["figures"]["AUC"]["figure"] <= 1
    useless = {**charged, "alarms": ["it says nothing"]}
    assert alarms({"charged_quality": useless}) == ["The model: it says nothing."]
    assert "statistics" in report_html(found)
