"""What no file names and the log does: artefacts, declared values, what was told about users."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.unit.app.explain.examples import SCHEMA
from tests.unit.app.recommend.test_asking import others
from tests.unit.app.recommend.test_training import TERMS, opened
from tests.unit.app.workspace import examples as workspaces
from tests.unit.recommenders.examples import DELTA, shop

from voile.app.assess import find_subject, subjects
from voile.app.assess.subjects import charged_terms, one_row, terms_trial
from voile.app.explain import (
    ReleaseService,
    RowsToExplain,
    paid_clusters,
    paid_synthetic_background,
)
from voile.app.recommend import TrainedRecommender, answer, save_recommender, train
from voile.assess.claims import UNCHARGED, charge_beside
from voile.pipelines.shapley_guided_noise.plan import GuidedTask
from voile.pipelines.trusted_averaging import OverOwnRows
from voile.privacy.events import Composed, Gaussian, PrivacyEvent, PureDp, Repeated, Zcdp
from voile.privacy.sensitivity import Norm, Sensitivity
from voile.records.vault import open_vault, open_vault_at
from voile.release import NoisyValues

pytestmark = pytest.mark.filterwarnings("ignore::voile.privacy.mechanisms.WeakPrivacyWarning")
ACCOUNT = "customers v1"
ROWS = np.array([[3.0, 6.0, 0.0], [9.0, 1.0, 1.0]])


def declared(service: ReleaseService) -> NoisyValues:
    protected = service.vault.account(ACCOUNT).protected
    return NoisyValues(
        Sensitivity(value=0.5, norm=Norm.L2, unit=protected.unit, relation=protected.relation),
        epsilon=0.3,
        delta=1e-6,
        protected=protected,
        feature_names=("value",),
        name="brought along",
        model="somewhere",
    )


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace whose account paid for more than its file names."""
    folder = tmp_path_factory.mktemp("house") / "house"
    workspaces.started(folder)
    with open_vault_at(find_subject(folder).books) as vault:  # type: ignore[arg-type]
        service = ReleaseService(vault)
        paid = {"epsilon": 0.2, "delta": 1e-6}
        paid_synthetic_background(service, ACCOUNT, ROWS, SCHEMA, size=20, **paid)  # type: ignore[arg-type]
        paid_clusters(service, ACCOUNT, ROWS, SCHEMA, count=2, **paid)  # type: ignore[arg-type]
        service.answer(
            declared(service), RowsToExplain(np.ones((1, 1))), payer=ACCOUNT, caller="somebody"
        )
    return folder


def test_what_a_workspace_paid_for_besides_is_audited(house: Path) -> None:
    subject = find_subject(house)
    names = [each.name for each in subject.trials]
    assert names[0] == "approval"
    assert sorted(names[1:]) == [
        "clusters of features (on record)",
        "noisy brought along (on record)",
        "synthetic background (on record)",
    ]
    assert subject.left_out == ()
    kinds = {type(each.event) for each in subject.trials}
    assert kinds == {Gaussian, Zcdp}


def test_trials_from_records_bet_against_what_was_charged(house: Path) -> None:
    books = find_subject(house).books
    assert books is not None
    terms, unread = charged_terms(books)
    assert unread == ()
    for each in terms:
        found = terms_trial(each)
        assert found is not None
        assert found.event == each.event
        assert found.arrangements(False)
        assert found.arrangements(True)


def test_explanations_on_other_terms_than_the_file_states_are_named(tmp_path: Path) -> None:
    folder = tmp_path / "house"
    workspaces.started(folder)
    file = folder / "voile.toml"
    with workspaces_open(folder) as workspace:
        workspace.explain("approval", ROWS)
    assert find_subject(folder).left_out == ()
    text = file.read_text()
    assert "\nepsilon = 0.5" in text
    file.write_text(text.replace("\nepsilon = 0.5", "\nepsilon = 0.25"))
    (named,) = find_subject(folder).left_out
    assert named.startswith("Shapley values over a private background, on record: charged on other")


def workspaces_open(folder: Path) -> Any:
    from voile.app.notebook import open_workspace

    return open_workspace(folder)


def test_what_was_told_about_users_is_audited(tmp_path: Path) -> None:
    people = shop(800)
    with open_vault(tmp_path, "example.org/shop", signing=None) as vault:
        opened(vault, 6.0)
        service = ReleaseService(vault)
        trained = TrainedRecommender(train(service, people, TERMS))
        answer(service, trained, people, others())
        answer(service, trained, people, others(user="6"))
        answer(service, trained, people, others(top=None, delta=DELTA))
        answer(service, trained, people, others(user=None, top=None, delta=DELTA))
    save_recommender(trained.moments, tmp_path / "recommender")
    subject = find_subject(tmp_path / "recommender")
    assert [each.name for each in subject.trials] == [
        "popularity of items",
        "Gram matrix of items",
        "top genre of the history (on record)",
        "noisy genre of the history (on record)",
        "importance of genre of the history (on record)",
    ]
    assert subject.left_out == ()
    assert subject.trials[2].event == PureDp(0.5)


def test_a_recommender_without_books_says_what_is_not_known(tmp_path: Path) -> None:
    from tests.unit.recommenders import examples as shops

    save_recommender(shops.moments(shops.shop(1000)), tmp_path / "shop")
    assert find_subject(tmp_path / "shop").left_out == (subjects.NO_BOOKS,)


def test_a_claim_is_that_of_one_row() -> None:
    assert one_row(Repeated(Gaussian(3.0), 7)) == Gaussian(3.0)
    assert one_row(PureDp(1.0)) == PureDp(1.0)


def test_figures_over_own_rows_are_a_claim_beside_the_training() -> None:
    from tests.unit.pipelines.trusted_parties import planned

    local = planned(rounds=1).local
    network = replace(local.network, noise_multiplier=2.0)
    task = replace(local, network=network, own_rows=OverOwnRows(4.0, 6.0))
    training, figures = subjects._of_task("trust", task, 1e-5)
    assert Composed((training.event, figures.event)) == task.cost(1)


def test_a_trial_of_private_columns_is_against_what_a_party_is_charged(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from tests.unit.pipelines.trusted_parties import CLINIC, QUICK

    task = GuidedTask(CLINIC.schema, (), QUICK, 2.0)
    (exact,) = subjects._of_task("columns", task, 1e-5)
    assert exact.event == task.steps(1).event()
    monkeypatch.setattr(GuidedTask, "cost", lambda *_: Gaussian(50.0))
    (tried,) = subjects._of_task("columns", task, 1e-5)
    assert tried.event == Gaussian(50.0)


@pytest.mark.parametrize(
    ("charged", "left"),
    [
        (Composed((Gaussian(2.0), Gaussian(4.0))), Gaussian(4.0)),
        (Composed((Repeated(Gaussian(2.0), 3), Gaussian(4.0))), None),
        (Composed((Gaussian(2.0), Gaussian(8.0))), Composed((Gaussian(8.0),))),
        (Gaussian(2.0), UNCHARGED),
    ],
)
def test_what_a_charge_leaves_for_one_part(
    charged: PrivacyEvent, left: PrivacyEvent | None
) -> None:
    found = charge_beside(charged, Gaussian(4.0), Gaussian(2.0))
    more = Composed((Repeated(Gaussian(2.0), 2), Gaussian(4.0)))
    assert found == (more if left is None else left)
