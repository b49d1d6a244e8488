"""Pipelines, recommenders and releases of other packages: registered by entry point alone."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.support import toys
from tests.support.pages import report_html
from tests.unit.app.federate.test_kinds import write_logistic
from tests.unit.cli.test_explain import prepared
from voile import cli, open_workspace
from voile.app.calls import handle
from voile.app.commands.explain import Explain
from voile.app.federate import federate, read_job
from voile.app.federate.preview import preview
from voile.core.errors import InvalidInput, Refused
from voile.core.row_note import KnownNote

__all__ = ["prepared"]
HERE = "tests.support.toys"
ASKED: dict[str, Any] = {
    "model": "tests.unit.cli.test_explain:SCORE",
    "data": "applicants.csv",
    "schema": "loans.toml",
    "model_origin": "public",
    "background": "public.csv",
    "background_origin": "public",
    "id_column": "id",
}
CHARGED = {"protect": "explained-row", "account": "people", "epsilon": 0.5}


@pytest.fixture
def loans(prepared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(prepared, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)


def test_a_pipeline_of_another_package_is_run_reported_on_and_explained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = write_logistic(tmp_path)
    config.write_text(config.read_text().replace("logistic regression", "quiet", 1))
    with pytest.raises(InvalidInput, match="pipeline: expected one of"):
        read_job(config)
    toys.install(monkeypatch, "voile.pipelines", quiet=f"{HERE}:PIPELINE")
    job = read_job(config)
    artefact = federate(job).artefact
    assert artefact.settings["pipeline"] == "quiet"
    (guarantee,) = artefact.guarantees
    assert guarantee.epsilon <= job.agreement.epsilon / 2
    assert "logistic regression" in report_html(artefact)
    with open_workspace(artefact.folder.parent / "voile.toml") as workspace:
        (name,) = workspace.releases
        explained = workspace.explain(name, artefact.folder.parent / "example.csv")
    assert explained.explanation.guarantees == artefact.guarantees


def test_one_that_trains_no_network_leaves_a_model_that_a_closed_formula_explains(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    toys.install(monkeypatch, "voile.pipelines", counting=f"{HERE}:COUNTING")
    config = write_logistic(tmp_path)
    text = config.read_text().replace("logistic regression", "counting", 1)
    config.write_text(text)
    with pytest.raises(InvalidInput, match="rounds = 1"):
        read_job(config)
    config.write_text(re.sub("(?m)^rounds = .*$", "", text))
    server = tmp_path / "server.toml"
    server.write_text(server.read_text().split("[[held_out]]")[0])
    job = read_job(config)
    assert job.agreement.rounds == 1
    assert "epsilon" not in str(preview(job.agreement, job.server).concerns)
    artefact = federate(job).artefact
    assert {"model.safetensors", "curves.json", "schema.toml"} <= artefact.files
    assert not {"reference.parquet", "black_box.safetensors"} & artefact.files
    assert artefact.additive is not None
    assert len(artefact.history) == len(job.agreement.sizes)
    assert "counts" in report_html(artefact)
    with open_workspace(artefact.folder.parent / "voile.toml") as workspace:
        (name,) = workspace.releases
        explained = workspace.explain(name, artefact.folder.parent / "example.csv")
    assert explained.explanation.guarantees == artefact.guarantees
    assert explained.explanation.output_names == ("log-odds of yes",)
    with pytest.raises(Refused, match="holds no network"):
        _ = artefact.network


@pytest.mark.usefixtures("loans")
def test_a_release_of_another_package_is_charged_recorded_and_given_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    toys.install(monkeypatch, "voile.releases", **{"toy-top": f"{HERE}:top_feature"})
    asked = {**ASKED, **CHARGED, "release_kind": "toy-top"}
    first = handle(Explain.read(asked)).explained
    assert len(first.charges) == 2
    assert first.explanation.carries(KnownNote.NAMES_ONLY)
    assert first.explanation.guarantees[0].epsilon == 0.5
    again = handle(Explain.read(asked)).explained
    assert again.replayed
    own = handle(Explain.read({**ASKED, **CHARGED, "top": 1})).explained
    assert not own.replayed, "it is not taken for a release of voile's"


@pytest.mark.usefixtures("loans")
def test_it_is_named_on_the_command_line_and_listed_when_misspelt(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    toys.install(monkeypatch, "voile.releases", **{"toy-top": f"{HERE}:top_feature"})
    typed = ["explain", ASKED["model"], "applicants.csv", "--schema", "loans.toml"]
    typed += ["--model-origin", "public", "--background", "public.csv"]
    typed += ["--background-origin", "public", "--id-column", "id", "--account", "people"]
    typed += ["--protect", "explained-row", "--json", "--release-kind"]
    for kind, code in (("toy-top", 0), ("toy-tip", 2)):
        with pytest.raises(SystemExit) as left:
            cli.main([*typed, kind])
        assert left.value.code == code
    assert "'toy-top', found 'toy-tip'" in capsys.readouterr().out


@pytest.mark.usefixtures("loans")
def test_a_release_that_is_not_what_it_was_asked_for_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    named = {"toy-top": f"{HERE}:top_feature", "other": f"{HERE}:under_another_name"}
    toys.install(monkeypatch, "voile.releases", **named)
    population = {"protect": "population", "account": "people", "id_column": None}
    with pytest.raises(Refused, match="protects explained rows"):
        handle(Explain.read({**ASKED, **CHARGED, **population, "release_kind": "toy-top"}))
    with pytest.raises(Refused, match="identified as 'other/VERSION'"):
        handle(Explain.read({**ASKED, "release_kind": "other"}))
