"""`voile recommend train --model`: each charged, on record, kept, asked and explained."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.support import toys
from tests.unit.recommenders import examples

from voile.app.assess.subjects import NETWORK_OF_USERS, find_subject
from voile.app.calls import handle
from voile.app.commands.audit import StartLog
from voile.app.commands.budget import OpenBudget, VerifyBudgets
from voile.app.commands.recommend import ExplainRecommendation, Recommend, TrainRecommender
from voile.app.recommend import load_recommender, save_recommender
from voile.core.errors import BudgetExceeded, InvalidInput, Refused, UnreadableFile
from voile.core.explanation import Explanation
from voile.privacy.accounting import PrivacyLoss
from voile.privacy.events import Composed
from voile.recommenders.explaining import scores_of
from voile.recommenders.kinds import (
    MODELS,
    FromHistories,
    HistoryNetwork,
    network_guarantee,
)

USERS = 800
NETWORKS = ("ncf", "autoencoder")


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A log, and an account over users that can hold sampled noise."""
    monkeypatch.chdir(tmp_path)
    items, columns = examples.catalogue(), examples.table(USERS)
    named = zip(items.items, items.titles, items.kinds["genre"], strict=True)
    lines = [f"{item},{title},{'|'.join(genres)}" for item, title, genres in named]
    Path("items.csv").write_text("\n".join(["item,title,genre", *lines]) + "\n")
    pairs = zip(columns["user"].tolist(), columns["item"].tolist(), strict=True)
    Path("lines.csv").write_text("user,item\n" + "".join(f"{u},{i}\n" for u, i in pairs))
    handle(StartLog(database="log.db", origin="example.org/shop"))
    terms: dict[str, Any] = {"unit": "user", "dataset": "shop v1", "epsilon": 6.0, "delta": 1e-5}
    orders = (4.0, 8.0, 16.0, 32.0)
    handle(OpenBudget(database="log.db", account="users", parallel=True, orders=orders, **terms))
    handle(
        OpenBudget(
            database="log.db",
            account="concentrated",
            parallel=True,
            **terms | {"dataset": "shop v2"},
        )
    )


def train(kind: str, **changes: Any) -> Any:
    asked = {"catalogue": "items.csv", "interactions": "lines.csv", "account": "users"}
    price = {"epsilon": 4.0, "delta": 1e-5, "folder": kind, "model": kind}
    return handle(TrainRecommender.read({**asked, **price, **changes}))


def why(kind: str, user: str = "7", **changes: Any) -> Explanation:
    asked = {"model": kind, "interactions": "lines.csv", "user": user, "count": 3}
    found: Explanation = handle(
        ExplainRecommendation.read({**asked, **changes})
    ).explained.explanation
    return found


@pytest.mark.usefixtures("shop")
@pytest.mark.parametrize("kind", ["moments", "mf", *NETWORKS])
def test_a_model_is_trained_kept_asked_and_explained(kind: str) -> None:
    trained = train(kind)
    assert len(trained.charges) == len(trained.new) == 2
    assert trained.guarantee.epsilon <= 4.0
    again = train(kind)
    assert again.charges == trained.charges
    assert not again.new, "the same question, at no cost"
    told = handle(
        Recommend(model=Path(kind), interactions="lines.csv", user="7", count=3)
    ).explained
    assert not told.charges
    (own,) = told.explanation.guarantees
    assert (own.epsilon, own.delta) == (trained.guarantee.epsilon, trained.guarantee.delta)
    for by in ("items", "genre"):
        reasons = why(kind, group_by=by)
        assert reasons.output_names == told.explanation.output_names
        total = reasons.base_values[0] + reasons.values[0].sum(axis=0)
        # Items of a network are explained by gradients along a path of some steps, and the network
        # has noise that is new in each run: its reasons add up to the score but for the steps.
        by_steps = kind in NETWORKS and by == "items"
        margin = 0.1 if by_steps else 1e-3
        assert total == pytest.approx(told.explanation.values[0, 0], abs=margin), by
    assert handle(VerifyBudgets(database="log.db")).verified


@pytest.mark.usefixtures("shop")
@pytest.mark.parametrize("kind", NETWORKS)
def test_a_network_promises_what_both_releases_cost_together(kind: str) -> None:
    trained = train(kind)
    made = load_recommender(Path(kind)).moments
    loss = PrivacyLoss().compose(Composed(made.events)).epsilon(1e-5 * (1 - 1e-6))
    assert trained.guarantee.epsilon == loss
    assert trained.guarantee.computational
    manifest = json.loads((Path(kind) / "recommender.json").read_text())
    assert (manifest["version"], manifest["model"]["name"]) == (2, kind)


@pytest.mark.usefixtures("shop")
def test_noise_is_calibrated_to_what_the_account_charges() -> None:
    """So the whole of it can be spent, and no more."""
    trained = train("ncf", epsilon=6.0)
    assert len(trained.new) == 2
    with pytest.raises(BudgetExceeded):
        train("autoencoder", epsilon=6.0)


@pytest.mark.usefixtures("shop")
def test_it_learns_tastes(tmp_path: Path) -> None:
    """Users of the two halves are recommended items of their own half, more often than not."""
    train("autoencoder", epsilon=5.0)
    model = load_recommender(tmp_path / "autoencoder").model
    interactions = examples.shop(USERS)
    own = []
    for user in range(0, 200):
        history = interactions.history(str(user))
        if len(history) < 3:
            continue
        taste = round(float(np.mean(history % 2)))
        scores = scores_of(model, history)
        scores[history] = -np.inf
        own.append(int(np.argmax(scores)) % 2 == taste)
    assert np.mean(own) > 0.6


@pytest.mark.usefixtures("shop")
def test_another_model_of_the_same_moments_is_free() -> None:
    first, second = train("moments"), train("mf")
    assert second.charges == first.charges
    assert not second.new


@pytest.mark.usefixtures("shop")
def test_a_preview_says_what_a_network_would_cost_and_charges_nothing() -> None:
    found = train("ncf", preview=True).preview
    assert found.guarantees[0].epsilon <= 4.0
    assert "noise multiplier" in found.accuracy
    assert train("ncf").charges == ("users#1", "users#2"), "nothing was charged before"


@pytest.mark.usefixtures("shop")
def test_what_a_model_cannot_do_is_refused() -> None:
    with pytest.raises(Refused, match="Rényi orders"):
        train("ncf", account="concentrated")
    with pytest.raises(InvalidInput, match="too little for a network"):
        train("ncf", epsilon=0.05, delta=1e-6)
    with pytest.raises(InvalidInput, match="model must be one of 'moments', 'mf'"):
        train("magic")
    with pytest.raises(BudgetExceeded):
        train("ncf", epsilon=9.0)
    train("ncf")
    with pytest.raises(Refused, match="for the user herself"):
        why("ncf", group_by="genre", audience="others", account="users", epsilon=0.5, top=1)


@pytest.mark.usefixtures("shop")
def test_a_stranger_gets_what_is_popular_without_a_reason() -> None:
    train("ncf")
    reasons = why("ncf", user="nobody")
    assert reasons.feature_names == ("nothing",)
    assert not reasons.values.any()


@pytest.mark.usefixtures("shop")
@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"noise_multiplier": 0.5}, Refused),
        ({"steps": 1}, Refused),
        ({"steps": "many"}, UnreadableFile),
    ],
)
def test_a_folder_that_states_other_terms_than_were_charged_is_refused(
    change: dict[str, Any], error: type[Exception]
) -> None:
    """The manifest is not signed, so the books decide."""
    train("autoencoder")
    path = Path("autoencoder/recommender.json")
    head = json.loads(path.read_text())
    head["model"]["steps"] |= change
    path.write_text(json.dumps(head))
    with pytest.raises(error):
        why("autoencoder")


@pytest.mark.usefixtures("shop")
def test_a_guarantee_that_follows_from_forged_steps_is_refused_all_the_same() -> None:
    train("autoencoder")
    folder, path = Path("autoencoder"), Path("autoencoder/recommender.json")
    made = load_recommender(folder).moments
    assert isinstance(made, HistoryNetwork)
    steps = replace(made.steps, noise_multiplier=9.0)
    terms: dict[str, Any] = {"protected": made.guarantee.protected, "delta": made.guarantee.delta}
    head = json.loads(path.read_text())
    head["model"]["steps"]["noise_multiplier"] = 9.0
    head["guarantee"] = network_guarantee(made.budget, steps, **terms).to_dict()
    path.write_text(json.dumps(head))
    assert load_recommender(folder).guarantee.epsilon < made.guarantee.epsilon
    with pytest.raises(Refused, match="did not pay"):
        why("autoencoder")


@pytest.mark.usefixtures("shop")
def test_a_model_of_another_package_is_trained_and_explained(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    toys.install(monkeypatch, "voile.recommenders", root="tests.support.toys:RECOMMENDER")
    assert train("root").charges
    assert why("root", group_by="genre").feature_names[:3] == ("Comedy", "Drama", "War")
    with pytest.raises(Refused, match="for the user herself"):
        why("root")
    monkeypatch.undo()


@pytest.mark.usefixtures("shop")
def test_an_assessment_says_what_it_leaves_out() -> None:
    train("ncf")
    found = find_subject(Path("ncf"))
    assert [each.name for each in found.trials] == ["popularity of items"]
    assert found.left_out[0] == NETWORK_OF_USERS


def test_the_settings_of_a_network_are_frozen() -> None:
    """Another rule is another name: what was trained by a name is continued and read by it."""
    found = {name: kind for name, kind in MODELS.items() if isinstance(kind, FromHistories)}
    assert {
        name: (kind.network.identity["hidden"], kind.rate, kind.clipping_norm)
        for name, kind in found.items()
    } == {"ncf": ([16], 0.01, 0.3), "autoencoder": (16, 0.03, 0.1)}


@pytest.mark.usefixtures("shop")
def test_what_is_charged_is_signed_before_a_recommender_leaves(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    checkpoint, seen = Path("audit.checkpoint"), []

    def save(*given: Any) -> Any:
        seen.append(checkpoint.read_bytes())
        return save_recommender(*given)

    monkeypatch.setattr("voile.app.recommend.handler.save_recommender", save)
    train("moments")
    assert seen == [checkpoint.read_bytes()]
