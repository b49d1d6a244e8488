"""`pipeline = "recommender"` with `secure = true`: shops share the noise, from files to a list."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.unit.app.federate import test_recommender as pair

from voile.app.artefact import Artefact
from voile.app.assess.subjects import find_subject
from voile.app.calls import handle
from voile.app.commands.recommend import Recommend
from voile.app.federate import Job, federate, read_job
from voile.app.federate.preview import preview
from voile.app.recommend import open_recommender
from voile.app.report import check_log
from voile.core.errors import InvalidInput, Refused
from voile.core.guarantee import Adversary
from voile.recommenders.federated import MomentsPlan
from voile.recommenders.moments import popularity, unit_rows

SHOPS = {"east": 300, "mid": 200, "west": 260}


def write_shared(folder: Path, *, secure: bool = True, options: str = "") -> Path:
    folder.mkdir(exist_ok=True)
    with pytest.MonkeyPatch.context() as changed:
        changed.setattr(pair, "SHOPS", SHOPS)
        config = pair.write_shops(folder)
    text = config.read_text()
    if secure:
        text = text.replace("# secure = true  ", "secure = true  ")
    if options:
        text = text.replace("\n[privacy]", f"{options}\n[privacy]", 1)
    config.write_text(text)
    return config


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Job:
    return read_job(write_shared(tmp_path_factory.mktemp("shared")))


@pytest.fixture(scope="module")
def artefact(job: Job) -> Artefact:
    return federate(job).artefact


def plan_of(job: Job) -> MomentsPlan:
    plan = job.agreement.plan
    assert isinstance(plan, MomentsPlan)
    return plan


def test_the_sum_is_nearly_that_of_one_shop_with_all_users(job: Job, artefact: Artefact) -> None:
    spent = plan_of(job).budget
    assert (spent.parties, spent.shares) == (3, 2)
    found: Any = open_recommender(artefact.folder).moments
    assert found.budget == spent
    exact = sum(popularity(unit_rows(p.records.matrix, bits=spent.bits)) for p in job.parties)
    off = np.abs(found.popularity.values - exact).max()
    assert 0 < off < 6 * np.sqrt(3 / 2) * spent.popularity_noise.sigma


def test_its_promise_is_that_of_sums_and_every_shop_pays_all_of_it(
    job: Job, artefact: Artefact
) -> None:
    (promise,) = artefact.guarantees
    assert promise == plan_of(job).guarantee()
    assert 0.98 * job.agreement.epsilon <= promise.epsilon <= job.agreement.epsilon
    assert Adversary.SERVER_SEEING_UPDATES not in promise.against
    assert any("from a party's own share alone" in each for each in promise.assumptions)
    spent = artefact.statement["spent_by_client"]
    assert set(spent) == set(SHOPS)
    assert all(each["epsilon"] == pytest.approx(promise.epsilon) for each in spent.values())
    assert all(check_log(artefact, name).failed is None for name in ("server", *SHOPS))


def test_lists_are_free_where_the_servers_log_has_the_sums(job: Job, artefact: Artefact) -> None:
    home = job.server.folder
    asked: dict[str, Any] = {
        "model": artefact.folder,
        "interactions": str(home.parent / "east.csv"),
        "user": "east3",
        "database": str(home / "log.db"),
        "count": 3,
    }
    assert handle(Recommend(**asked)).explained.charges == ()
    head = json.loads((artefact.folder / "recommender.json").read_text())
    assert (head["version"], head["budget"]["shares"]) == (3, 2)


def test_the_preview_says_how_noise_is_shared(job: Job, tmp_path: Path) -> None:
    said = str(preview(job.agreement, job.server))
    assert "2 honest parties of 3 give all of it" in said
    assert "the variance is 1.5 times that of one table" in said
    local = read_job(write_shared(tmp_path, options='\n[options]\nnoise = "local"\n'))
    assert "each of 3 parties adds all of the noise" in str(preview(local.agreement, local.server))
    assert not plan_of(local).shared
    ours, theirs = plan_of(job).budget.gram_deviation, plan_of(local).budget.gram_deviation
    assert ours < 0.85 * theirs


def test_noise_is_an_option_and_shared_noise_needs_a_secure_sum(job: Job, tmp_path: Path) -> None:
    shared = '\n[options]\nnoise = "shared"\n'
    with pytest.raises(Refused, match="secure = true"):
        _ = read_job(write_shared(tmp_path / "a", secure=False, options=shared)).agreement.plan
    with pytest.raises(InvalidInput, match="noise"):
        read_job(write_shared(tmp_path / "b", options=shared.replace("shared", "some")))
    plain = read_job(write_shared(tmp_path / "c", secure=False))
    assert not plan_of(plain).shared
    # What earlier versions mean by the same file is another agreement.
    with pytest.MonkeyPatch.context() as changed:
        changed.setattr("voile.app.federate.agreement._SHARING_NOW", ())
        assert replace(job.agreement).digest != job.agreement.digest


def test_what_is_charged_can_be_assessed(job: Job) -> None:
    config = job.server.folder.parent / "federation.toml"
    names = [trial.name for trial in find_subject(config).trials]
    assert names == ["popularity, a sum", "Gram matrix, a sum"]
