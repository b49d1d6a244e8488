"""What a recommender is asked: free toward the user herself, charged or refused toward others."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.unit.app.recommend.test_training import TERMS, opened
from tests.unit.recommenders.examples import DELTA, shop

from voile.app.explain import ReleasedExplanation, ReleaseService
from voile.app.recommend import (
    SCORES,
    Audience,
    ProfileLevel,
    RecommendationSpec,
    TrainedRecommender,
    answer,
    handler,
    preview,
    train,
)
from voile.app.recommend.handler import RecommendationPage
from voile.core.errors import BudgetExceeded, InvalidInput, Refused
from voile.core.guarantee import Adversary
from voile.core.rendering import render_html
from voile.recommenders.explaining import label_clusters
from voile.records.vault import open_vault

SHOP = shop(800)


@pytest.fixture
def service(tmp_path: Path) -> Iterator[ReleaseService]:
    with open_vault(tmp_path / "shop", "example.org/shop", signing=None) as vault:
        opened(vault, 6.0)
        yield ReleaseService(vault)


@pytest.fixture
def trained(service: ReleaseService) -> TrainedRecommender:
    return TrainedRecommender(train(service, SHOP, TERMS))


def herself(**changes: Any) -> RecommendationSpec:
    return RecommendationSpec(**({"caller": "user 5", "user": "5"} | changes))


def others(**changes: Any) -> RecommendationSpec:
    given: dict[str, Any] = {
        "caller": "a friend",
        "user": "5",
        "toward": Audience.OTHERS,
        "by": "genre",
        "account": "users",
        "epsilon": 0.5,
        "top": 1,
    }
    return RecommendationSpec(**(given | changes))


def test_what_a_user_sees_costs_nothing_and_is_on_record(
    service: ReleaseService, trained: TrainedRecommender
) -> None:
    before = service.vault.storage.read_snapshot(
        lambda t: service.vault.ledger.node(t, "users").balance
    )
    for spec in (herself(by=SCORES), herself(), herself(by="genre")):
        found = answer(service, trained, SHOP, spec)
        assert found.charges == ()
        (promise,) = found.explanation.guarantees
        assert promise.against == (Adversary.PUBLIC, Adversary.OTHER_USERS)
    after = service.vault.storage.read_snapshot(
        lambda t: service.vault.ledger.node(t, "users").balance
    )
    assert before == after
    service.vault.publish()
    assert service.receipts(found)[0].record
    assert service.verify().verified


def test_items_add_up_to_the_scores(service: ReleaseService, trained: TrainedRecommender) -> None:
    scores, items, genres = (
        answer(service, trained, SHOP, herself(by=by)).explanation
        for by in (SCORES, "items", "genre")
    )
    assert scores.output_names == items.output_names == genres.output_names
    assert np.allclose(items.values.sum(axis=1), scores.values[:, 0])
    assert np.allclose(genres.values.sum(axis=1), scores.values[:, 0])


def test_a_stranger_is_recommended_what_is_popular(
    service: ReleaseService, trained: TrainedRecommender
) -> None:
    found = answer(service, trained, SHOP, herself(user="nobody", by=SCORES)).explanation
    best = np.argsort(-trained.linear.popularity, kind="stable")[:10]
    assert found.output_names == tuple(trained.catalogue.names[place] for place in best)


def test_toward_others_each_user_pays_for_herself(
    service: ReleaseService, trained: TrainedRecommender
) -> None:
    one = answer(service, trained, SHOP, others())
    again = answer(service, trained, SHOP, others(user=" 5.0 "))
    two = answer(service, trained, SHOP, others(user="6"))
    assert not one.replayed
    assert again.replayed
    assert np.array_equal(one.explanation.values, again.explanation.values)
    assert not two.replayed
    ledger = service.vault.ledger
    children = service.vault.storage.read_snapshot(lambda t: ledger.children(t, "users"))
    assert len(children) == 2
    promise = one.explanation.guarantees[0]
    assert promise.epsilon == pytest.approx(0.5 + trained.guarantee.epsilon)
    service.vault.publish()
    assert service.verify().verified


def test_a_user_can_be_told_about_only_so_often(
    service: ReleaseService, trained: TrainedRecommender
) -> None:
    def again_and_again() -> None:
        for _ in range(50):
            answer(service, trained, SHOP, others(fresh=True))

    with pytest.raises(BudgetExceeded):
        again_and_again()
    answer(service, trained, SHOP, others(user="6"))  # another user has not paid for that


def test_importance_over_all_users_is_charged_to_the_account(
    service: ReleaseService, trained: TrainedRecommender
) -> None:
    spec = others(user=None, top=None, delta=1e-7)
    found = answer(service, trained, SHOP, spec)
    assert found.explanation.feature_names == ("Comedy", "Drama", "War", "no genre")
    assert answer(service, trained, SHOP, spec).replayed
    assert len(found.charges) == 1


@pytest.mark.parametrize("user", [None, "5"])
def test_other_groups_are_another_question(
    service: ReleaseService, trained: TrainedRecommender, user: str | None
) -> None:
    def told(groups: dict[str, tuple[str, ...]]) -> ReleasedExplanation:
        level = {"level": ProfileLevel.SUMMARY, "groups": groups}
        spec = others(user=user, top=None, delta=1e-7, **level)
        return answer(service, trained, SHOP, spec)

    told({"some": ("Drama", "War")})
    other = told({"some": ("Comedy", "War")})
    assert not other.replayed
    assert other.explanation.feature_names == ("some", "Drama", "no genre")
    assert told({"some": ("Comedy", "War")}).replayed


def test_levels(service: ReleaseService, trained: TrainedRecommender) -> None:
    noisy = others(top=None, delta=1e-7)
    detailed = answer(service, trained, SHOP, noisy).explanation
    assert detailed.shape[1] == 4
    declared = {"serious": ("Drama", "War")}
    summary = replace(noisy, level=ProfileLevel.SUMMARY, groups=declared)
    assert answer(service, trained, SHOP, summary).explanation.shape[1] == 3
    assert (
        answer(
            service, trained, SHOP, replace(noisy, level=ProfileLevel.AGGREGATE)
        ).explanation.shape[1]
        == 4
    )  # four labels need no clusters
    with pytest.raises(Refused, match="names her history"):
        replace(noisy, level=ProfileLevel.GRANULAR)
    text = str(preview(service, trained, SHOP, noisy))
    assert "pure noise would reach a PAAS" in text


def test_labels_that_stand_together_are_clustered() -> None:
    catalogue = shop(3).catalogue
    groups = label_clusters(catalogue, "genre", 2)
    assert sorted(label for labels in groups.values() for label in labels) == [
        "Comedy",
        "Drama",
        "War",
        "no genre",
    ]
    assert len(groups) == 2


@pytest.mark.parametrize(
    ("changes", "error", "said"),
    [
        ({"by": "items"}, Refused, "names her history"),
        ({"by": SCORES}, Refused, "not shown to others"),
        ({"account": None}, InvalidInput, "name the account that pays"),
        ({"epsilon": None}, InvalidInput, "name the account that pays"),
        ({"delta": 1e-7}, InvalidInput, "leave out delta"),
        ({"top": None}, InvalidInput, "needs a delta"),
        ({"user": None}, InvalidInput, "--top is for one user"),
        ({"level": "summary"}, InvalidInput, "groups of labels are declared"),
        ({"level": "everything"}, InvalidInput, "level must be one of"),
        ({"toward": "everybody"}, InvalidInput, "toward must be one of"),
        ({"count": 0}, InvalidInput, "count"),
    ],
)
def test_what_contradicts_itself_is_refused(
    changes: dict[str, Any], error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=said):
        others(**changes)


def test_nothing_is_paid_for_what_is_free() -> None:
    for changes in ({"account": "users"}, {"epsilon": 1.0}, {"top": 1}, {"delta": 1e-6}):
        with pytest.raises(InvalidInput, match="costs nothing"):
            herself(**changes)
    with pytest.raises(InvalidInput, match="name the user"):
        herself(user=None)


@pytest.mark.parametrize("spec", [herself(), herself(by=SCORES), others()], ids=repr)
def test_moments_that_these_books_did_not_pay_for_are_refused(
    service: ReleaseService,
    trained: TrainedRecommender,
    tmp_path: Path,
    spec: RecommendationSpec,
) -> None:
    with open_vault(tmp_path / "other", "example.org/other", signing=None) as vault:
        opened(vault, 6.0)
        with pytest.raises(Refused, match="did not pay for this recommender"):
            answer(ReleaseService(vault), trained, SHOP, spec)
    moments = trained.moments
    changed = replace(moments.popularity, values=moments.popularity.values + 1)
    nowhere = replace(moments.popularity, charge="nowhere#1")
    quieter = replace(moments.budget, mu=moments.budget.mu * (1 + 1e-9))
    for forged in (
        replace(moments, popularity=changed),
        replace(moments, popularity=nowhere),
        replace(moments, budget=quieter),
    ):
        with pytest.raises(Refused, match="did not pay for this recommender"):
            answer(service, TrainedRecommender(forged), SHOP, spec)


@pytest.mark.parametrize("spec", [herself(), herself(by=SCORES), others()], ids=repr)
@pytest.mark.parametrize(
    "changes",
    [
        {"epsilon": 0.001},
        {"delta": 1e-9},
        {"against": (Adversary.PUBLIC, Adversary.SERVER_SEEING_UPDATES)},
        {"assumptions": ()},
    ],
    ids=repr,
)
def test_a_guarantee_is_what_follows_from_the_books(
    service: ReleaseService,
    trained: TrainedRecommender,
    changes: dict[str, Any],
    spec: RecommendationSpec,
) -> None:
    """An artefact is not signed: what it says of itself would be signed into the log."""
    moments = trained.moments
    forged = replace(moments, guarantee=replace(moments.guarantee, **changes))
    with pytest.raises(Refused, match="on the terms it states"):
        answer(service, TrainedRecommender(forged), SHOP, spec)


def test_an_account_that_did_not_pay_for_the_moments_pays_for_no_answer(
    service: ReleaseService, trained: TrainedRecommender
) -> None:
    opened(service.vault, 6.0, name="another", protected=replace_dataset("shop 2027"))
    with pytest.raises(Refused, match="did not pay for this recommender"):
        answer(service, trained, SHOP, others(account="another"))


def replace_dataset(dataset: str) -> Any:
    from tests.unit.recommenders.examples import USER

    return USER.in_dataset(dataset)


def test_accounts_below_the_one_that_paid_do_not_share_out_one_user(
    service: ReleaseService, trained: TrainedRecommender
) -> None:
    """They are parallel: of two answers about one user the dearer one alone would count above."""
    for name in ("users/a", "users/b"):
        opened(service.vault, 6.0, name=name, parent="users")
        for spec in (others(account=name), others(account=name, user=None, top=None, delta=1e-7)):
            with pytest.raises(Refused, match="charged to 'users', which did"):
                answer(service, trained, SHOP, spec)


def test_popularity_alone_has_no_reasons(tmp_path: Path) -> None:
    small = shop(60)
    with open_vault(tmp_path / "small", "example.org/small", signing=None) as vault:
        opened(vault, 2.0)
        service = ReleaseService(vault)
        terms = replace(TERMS, epsilon=1.0, delta=DELTA)
        trained = TrainedRecommender(train(service, small, terms))
        assert answer(service, trained, small, herself(by=SCORES)).explanation.shape[2] == 10
        with pytest.raises(InvalidInput, match="learned popularity only"):
            answer(service, trained, small, herself())


def test_a_page_is_for_one_user_and_asks_nobody_else(
    service: ReleaseService, trained: TrainedRecommender
) -> None:
    explained = answer(service, trained, SHOP, herself()).explanation
    odd = replace(
        explained, output_names=("<script>alert(1)</script>", *explained.output_names[1:])
    )
    page = render_html(RecommendationPage(odd))
    assert "<script>" not in page
    assert "&lt;script&gt;" in page
    assert "default-src 'none'" in page
    assert "joint differential privacy" in page
    assert explained.feature_names[0] in page or explained.feature_names[1] in page


def test_books_are_asked_once_for_each_opening(
    service: ReleaseService,
    trained: TrainedRecommender,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answer(service, trained, SHOP, herself(by=SCORES))
    with monkeypatch.context() as patched:
        patched.setattr(handler, "_payer", lambda *_: pytest.fail("looked up again"))
        answer(service, trained, SHOP, herself(by=SCORES))
    with open_vault(tmp_path / "other", "example.org/other", signing=None) as vault:
        opened(vault, 6.0)
        with pytest.raises(Refused, match="did not pay for this recommender"):
            answer(ReleaseService(vault), trained, SHOP, herself(by=SCORES))


def test_a_free_release_is_built_once_for_each_way_to_ask(
    service: ReleaseService, trained: TrainedRecommender
) -> None:
    one = herself(by="genre")
    built = handler.build(service, trained, SHOP, one)
    assert handler.build(service, trained, SHOP, replace(one, user="7")) is built
    groups = {"both": ("Comedy", "Drama")}
    for other in (replace(one, count=3), replace(one, by="period"), replace(one, groups=groups)):
        assert handler.build(service, trained, SHOP, other) is not built
    first, second = (
        answer(service, trained, SHOP, replace(one, user=user)).explanation for user in ("5", "6")
    )
    assert not np.array_equal(first.values, second.values)
    for count in range(1, 200):
        handler.build(service, trained, SHOP, replace(one, count=count))
    assert len(trained.free) <= 64


def test_another_catalogue_than_the_one_on_record_is_refused(
    service: ReleaseService, trained: TrainedRecommender
) -> None:
    """Items under other names are other recommendations, whatever their moments are."""
    moments = trained.moments
    titles = (*moments.catalogue.titles[1:], moments.catalogue.titles[0])
    other = replace(moments, catalogue=replace(moments.catalogue, titles=titles))
    with pytest.raises(Refused, match="did not pay for this recommender"):
        answer(service, TrainedRecommender(other), SHOP, herself())


def test_whoever_has_no_history_is_recommended_what_is_popular_without_a_reason(
    service: ReleaseService, trained: TrainedRecommender
) -> None:
    scores = answer(service, trained, SHOP, herself(user="nobody", by=SCORES)).explanation
    for by in ("items", "genre"):
        found = answer(service, trained, SHOP, herself(user="nobody", by=by)).explanation
        assert not found.values.any()
        assert np.array_equal(found.base_values[0], scores.values[0, 0])


@pytest.mark.parametrize("name", ["", " ", "nan", "\u200b"])
def test_a_name_that_names_nobody_is_refused(name: str) -> None:
    for spec in (herself, others):
        with pytest.raises(InvalidInput, match="must name somebody"):
            spec(user=name)
