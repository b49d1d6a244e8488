"""`pipeline = "recommender"`: item moments of several shops, and a recommender made from them."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.support.pages import report_html
from tests.unit.recommenders.examples import catalogue, table

from voile.app.artefact import Artefact, load_artefact
from voile.app.calls import handle
from voile.app.commands.recommend import Audience, ExplainRecommendation, Recommend
from voile.app.federate import Job, federate, read_job
from voile.app.federate.preview import preview
from voile.app.federate.starting import NewParty, Settings, write_federation
from voile.app.recommend import open_recommender
from voile.app.report import check_log
from voile.core.errors import Refused, VerificationFailed
from voile.core.guarantee import Adversary, ProtectedUnit
from voile.federation import Client
from voile.privacy.mechanisms import GaussianMechanism
from voile.recommenders.rows import grid_bits, popularity, unit_rows

SHOPS = {"east": 300, "west": 260}


def write_shops(folder: Path, epsilon: float = 6.0) -> Path:
    items = catalogue()
    rows = ["item,genre", *(f"{i},{'|'.join(g)}" for i, g in zip(
        items.items, items.kinds["genre"], strict=True))]  # fmt: skip
    (folder / "films.csv").write_text("\n".join(rows) + "\n")
    founders = []
    for place, (name, users) in enumerate(SHOPS.items()):
        told = table(users, seed=place)
        lines = [f"{name}{u},{i}" for u, i in zip(told["user"], told["item"], strict=True)]
        lines += [f"{name}{u}," for u in range(users)]  # also those who touched nothing
        (folder / f"{name}.csv").write_text("\n".join(["user,item", *lines]) + "\n")
        founders.append(NewParty(name, folder / f"{name}.csv", users))
    settings = Settings(epsilon=epsilon, delta=1e-5)
    config = write_federation(folder, "shops 1", folder / "films.csv", founders, settings)
    text = config.read_text().replace("private explainer", "recommender", 1)
    config.write_text("".join(x for x in text.splitlines(True) if not x.startswith("rounds =")))
    return config


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Job:
    return read_job(write_shops(tmp_path_factory.mktemp("shops")))


@pytest.fixture(scope="module")
def artefact(job: Job) -> Artefact:
    return federate(job).artefact


def test_its_artefact_is_a_recommender(job: Job, artefact: Artefact) -> None:
    trained = open_recommender(artefact.folder)
    assert trained.federation == "shops 1"
    assert trained.moments.gram is not None  # type: ignore[union-attr]
    exact = sum(
        popularity(unit_rows(party.records.matrix, bits=grid_bits(560))) for party in job.parties
    )
    sigma = job.agreement.plan.budget.popularity_noise.sigma * np.sqrt(2)  # type: ignore[attr-defined]
    found: Any = trained.moments
    assert np.abs(found.popularity.values - exact).max() < 6 * sigma
    assert np.abs(found.popularity.values - exact).max() > 0


def test_a_user_of_one_shop_is_promised_what_was_charged_there(
    job: Job, artefact: Artefact
) -> None:
    (guarantee,) = artefact.guarantees
    assert guarantee == job.agreement.plan.guarantee()
    assert guarantee.protected.unit is ProtectedUnit.USER
    assert guarantee.epsilon <= job.agreement.epsilon
    assert Adversary.SERVER_SEEING_UPDATES in guarantee.against
    assert [(row.stage, row.client) for row in artefact.history] == [
        (stage, name) for stage in ("popularity", "Gram matrix") for name in SHOPS
    ]
    assert all(check_log(artefact, name).failed is None for name in ("server", *SHOPS))
    assert "voile recommend list" in report_html(artefact)


def test_users_are_recommended_to_for_free_and_others_are_told_nothing(
    job: Job, artefact: Artefact
) -> None:
    home = job.server.folder
    asked: dict[str, Any] = {
        "model": artefact.folder,
        "interactions": str(home.parent / "east.csv"),
        "user": "east3",
        "database": str(home / "log.db"),
        "count": 3,
    }
    listed = handle(Recommend(**asked)).explained
    (promise,), (toward_her,) = artefact.guarantees, listed.explanation.guarantees
    assert (toward_her.epsilon, toward_her.protected) == (promise.epsilon, promise.protected)
    assert listed.charges == ()
    with pytest.raises(Refused, match="no rounds of this recommender"):
        handle(Recommend(**asked | {"database": str(home.parent / "nodes" / "east" / "log.db")}))
    why = handle(ExplainRecommendation(**asked, group_by="genre")).explained
    assert why.explanation.guarantees == listed.explanation.guarantees
    with pytest.raises(Refused, match="paid for by the parties of 'shops 1'"):
        handle(
            ExplainRecommendation(
                **asked,
                group_by="genre",
                audience=Audience.OTHERS,
                account="users",
                epsilon=1.0,
                delta=1e-6,
            )
        )


def test_another_guarantee_than_that_of_the_federation_is_noticed(
    artefact: Artefact, tmp_path: Path
) -> None:
    copy = tmp_path / "artefact"
    shutil.copytree(artefact.folder, copy)
    head = copy / "recommender.json"
    head.write_text(head.read_text().replace('"delta": 1e-05', '"delta": 1e-06'))
    with pytest.raises(VerificationFailed, match="was changed"):
        open_recommender(copy)
    listed = copy / "artefact.json"
    old = json.loads(listed.read_text())["files"]["recommender.json"]
    listed.write_text(listed.read_text().replace(old, sha256(head.read_bytes()).hexdigest()))
    with pytest.raises(VerificationFailed, match="another guarantee"):
        open_recommender(copy)


def test_what_to_expect_is_said(job: Job, tmp_path: Path) -> None:
    assert "a Gram matrix of" in str(preview(job.agreement, job.server))
    little = read_job(write_shops(tmp_path, epsilon=0.2))
    assert len(little.agreement.plan.stages) == 1
    assert "too little for a Gram matrix" in str(preview(little.agreement, little.server))
    found: Any = open_recommender(federate(little).artefact.folder).moments
    assert found.gram is None


def test_a_sum_without_a_shop_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = read_job(write_shops(tmp_path))
    whole = Client.answer

    def silent(self: Client, instruction: Any) -> Any:
        if self.name == "west" and instruction.stage == "Gram matrix":
            raise Refused("not now")
        return whole(self, instruction)

    monkeypatch.setattr(Client, "answer", silent)
    with pytest.raises(Refused, match=r"without \['west'\]"):
        federate(job)


def test_shops_count_alike_and_without_noise_it_is_the_sum(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(GaussianMechanism, "randomise", lambda _, exact, *__: exact)
    job = read_job(write_shops(tmp_path))
    found: Any = open_recommender(federate(job).artefact.folder).moments
    exact = sum(
        popularity(unit_rows(party.records.matrix, bits=grid_bits(560))) for party in job.parties
    )
    np.testing.assert_allclose(found.popularity.values, exact, atol=1e-4)
    assert replace(job.agreement, pipeline="aggregate", options=None).digest != job.agreement.digest
    assert load_artefact(job.server.folder / "artefact").has_model is False
