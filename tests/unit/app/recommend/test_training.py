"""The item side, charged in two releases: paid once, whatever happens in between."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.unit.recommenders.examples import DATASET, DELTA, USER, budget, shop

from voile.app.budget import open_budget
from voile.app.explain import ReleaseService
from voile.app.explain.in_turn import charged_since, records_so_far
from voile.app.recommend import (
    TrainingTerms,
    check_place,
    load_recommender,
    preview_training,
    save_recommender,
)
from voile.app.recommend import train as train_any
from voile.app.recommend.training import budget_for
from voile.core.errors import (
    BudgetExceeded,
    InvalidInput,
    Refused,
    UnreadableFile,
    VerificationFailed,
)
from voile.core.guarantee import Protected, ProtectedUnit, Relation
from voile.recommenders import (
    ItemMoments,
    PopularityRecommender,
    PrivateGram,
    PrivatePopularity,
)
from voile.records.audit_log import RefusalRecord, ReleaseRecord, decode_record
from voile.records.ledger import Children, Opening, PlannedSpending
from voile.records.vault import Vault, open_vault

SHOP = shop(800)
TERMS = TrainingTerms(account="users", epsilon=3.0, delta=DELTA)


def train(*given: Any, **settings: Any) -> ItemMoments:
    found = train_any(*given, **settings)
    assert isinstance(found, ItemMoments)
    return found


def opened(vault: Vault, epsilon: float = 3.0, **changes: Any) -> None:
    given: dict[str, Any] = {
        "name": "users",
        "protected": USER,
        "epsilon": epsilon,
        "delta": DELTA,
        "children": Children.PARALLEL,
    }
    opening = Opening(**(given | changes))
    open_budget(vault.storage, vault.ledger, vault.log, opening, caller="custodian")


@pytest.fixture
def service(tmp_path: Path) -> Iterator[ReleaseService]:
    with open_vault(tmp_path / "shop", "example.org/shop", signing=None) as vault:
        yield ReleaseService(vault)


def records(service: ReleaseService, kind: type) -> list[Any]:
    vault = service.vault
    contents = vault.storage.submit(lambda t: vault.log.records(t, limit=10**6))
    return [each for each in map(decode_record, contents) if isinstance(each, kind)]


def test_both_releases_are_charged_once_and_given_again(service: ReleaseService) -> None:
    opened(service.vault)
    first, again = (train(service, SHOP, TERMS) for _ in range(2))
    assert (first.popularity.charge, first.gram and first.gram.charge) == ("users#1", "users#2")
    assert np.array_equal(first.popularity.values, again.popularity.values)
    assert first.gram is not None
    assert again.gram is not None
    assert np.array_equal(first.gram.matrix, again.gram.matrix)
    assert len(records(service, ReleaseRecord)) == 2
    service.vault.publish()
    assert service.verify().verified
    assert first.guarantee.epsilon < 3.0  # exactly composed; the account adds up a little more
    assert service.receipt("users#2").record


def test_somebody_else_gets_the_same_moments(service: ReleaseService) -> None:
    opened(service.vault)
    train(service, SHOP, TERMS)
    other = TrainingTerms(account="users", epsilon=3.0, delta=DELTA, caller="somebody else")
    assert train(service, SHOP, other).popularity.charge == "users#1"


def test_broken_off_between_the_releases_nothing_was_charged(
    service: ReleaseService, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened(service.vault)

    def broken(_: PrivateGram, __: object = None) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(PrivateGram, "draw", broken)
        with pytest.raises(KeyboardInterrupt):
            train(service, SHOP, TERMS)
    assert records(service, ReleaseRecord) == []
    made = train(service, SHOP, TERMS)
    assert (made.popularity.charge, made.gram and made.gram.charge) == ("users#1", "users#2")


def test_popularity_that_an_earlier_version_paid_for_is_not_paid_for_again(
    service: ReleaseService,
) -> None:
    """It charged the two releases one after the other."""
    opened(service.vault)
    account = service.vault.account("users")
    budget = budget_for(account, SHOP, TERMS.epsilon, TERMS.delta)
    first = PrivatePopularity(SHOP, budget, protected=account.protected, delta=TERMS.delta)
    service.obtain(first, payer="users", caller=TERMS.caller)
    said = preview_training(service, SHOP, TERMS).remarks[-1]
    assert said.startswith("1 of 2 releases are paid for; the rest fits: uses ")
    before = records_so_far(service)
    made = train(service, SHOP, TERMS)
    assert charged_since(service, ("users#1", "users#2"), before) == ("users#2",)
    assert (made.popularity.charge, made.gram and made.gram.charge) == ("users#1", "users#2")
    assert len(records(service, ReleaseRecord)) == 2


KILLED = """
import os, signal, sys
from pathlib import Path
from voile.recommenders import PrivateGram
from voile.records.vault import open_vault
from voile.app.explain import ReleaseService
from voile.app.recommend import train
from tests.unit.app.recommend.test_training import SHOP, TERMS

PrivateGram.draw = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
with open_vault(Path(sys.argv[1]), "example.org/shop", signing=None) as vault:
    train(ReleaseService(vault), SHOP, TERMS)
"""


def test_killed_between_the_releases_nothing_was_charged(tmp_path: Path) -> None:
    folder = tmp_path / "shop"
    with open_vault(folder, "example.org/shop", signing=None) as vault:
        opened(vault)
    root = Path(__file__).parents[4]
    path = os.pathsep.join([str(root), str(root / "src")])
    run = subprocess.run(
        [sys.executable, "-c", KILLED, str(folder)],
        check=False,
        cwd=root,
        env={**os.environ, "PYTHONPATH": path},
        timeout=120,
    )
    assert run.returncode == -9
    with open_vault(folder, "example.org/shop", signing=None) as vault:
        service = ReleaseService(vault)
        assert records(service, ReleaseRecord) == []
        made = train(service, SHOP, TERMS)
        assert (made.popularity.charge, made.gram and made.gram.charge) == ("users#1", "users#2")
        vault.publish()
        assert service.verify().verified


def test_nothing_is_charged_where_both_would_not_fit(
    service: ReleaseService, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened(service.vault, 2.0)  # enough for popularity alone
    monkeypatch.setattr(PrivatePopularity, "draw", lambda *_: pytest.fail("something was drawn"))
    with pytest.raises(BudgetExceeded):
        train(service, SHOP, TERMS)
    assert records(service, ReleaseRecord) == []
    assert len(records(service, RefusalRecord)) == 1


def test_new_moments_are_paid_for_again(service: ReleaseService) -> None:
    opened(service.vault, 4.6)
    first = train(service, SHOP, TERMS)
    fresh = TrainingTerms(account="users", epsilon=3.0, delta=DELTA, fresh=True)
    again = train(service, SHOP, fresh)
    assert (again.popularity.charge, again.gram and again.gram.charge) == ("users#3", "users#4")
    assert not np.array_equal(first.popularity.values, again.popularity.values)
    latest = train(service, SHOP, TERMS)
    assert np.array_equal(latest.popularity.values, again.popularity.values)
    with pytest.raises(BudgetExceeded):
        train(service, SHOP, fresh)


def test_a_plan_is_composed_exactly_and_needs_less_noise(service: ReleaseService) -> None:
    spent = budget(SHOP, 3.0)
    events = (spent.popularity_noise.event(), spent.gram_noise.event())
    opened(service.vault, 3.0, spending=PlannedSpending(events), children=Children.SEQUENTIAL)
    assert "fits: uses 100.0% of" in preview_training(service, SHOP, TERMS).remarks[-1]
    made = train(service, SHOP, TERMS)
    assert made.budget == spent
    assert 2.9999 < made.guarantee.epsilon <= 3.0


def test_too_little_budget_falls_back_to_popularity(service: ReleaseService) -> None:
    small = shop(60)
    opened(service.vault, 1.0)
    terms = TrainingTerms(account="users", epsilon=1.0, delta=DELTA)
    assert "everybody is recommended the same" in str(preview_training(service, small, terms))
    made = train(service, small, terms)
    assert made.gram is None
    assert len(records(service, ReleaseRecord)) == 1


def test_an_account_over_rows_does_not_pay_for_users(service: ReleaseService) -> None:
    opened(service.vault, protected=Protected(ProtectedUnit.ROW, Relation.BLANK_ONE, DATASET))
    with pytest.raises(Refused, match="unit 'user'"):
        train(service, SHOP, TERMS)


def test_a_preview_charges_nothing(service: ReleaseService) -> None:
    opened(service.vault)
    found = preview_training(service, SHOP, TERMS)
    assert "324 values are drawn by an exact sampler" in str(found)
    assert found.guarantees[0].epsilon < 3.0
    assert records(service, ReleaseRecord) == []


# --- as a folder ----------------------------------------------------------------------------------


@pytest.mark.parametrize("users", [800, 60])
def test_a_recommender_is_read_as_it_was_written(
    service: ReleaseService, tmp_path: Path, users: int
) -> None:
    opened(service.vault)
    saved = save_recommender(train(service, shop(users), TERMS), tmp_path / "made")
    found = load_recommender(tmp_path / "made")
    assert found.digest == saved.digest
    assert found.charges == saved.charges
    assert found.guarantee == saved.guarantee
    some = shop(5).matrix
    assert np.array_equal(found.model.scores(some), saved.model.scores(some))
    assert isinstance(found.model, PopularityRecommender) == (users == 60)
    content = b"".join(path.read_bytes() for path in sorted((tmp_path / "made").iterdir()))
    assert b'"users": ' in content  # how many: public
    assert len(content) < 24 * 24 * 8 + 8000  # and nothing that grows with them


def test_damage_is_found(service: ReleaseService, tmp_path: Path) -> None:
    opened(service.vault)
    folder = tmp_path / "made"
    save_recommender(train(service, SHOP, TERMS), folder)
    whole = {path.name: path.read_bytes() for path in folder.iterdir()}
    for name, content in whole.items():
        (folder / name).write_bytes(content[:-3])
        with pytest.raises((VerificationFailed, UnreadableFile)):
            load_recommender(folder)
        (folder / name).unlink()
        with pytest.raises((VerificationFailed, UnreadableFile)):
            load_recommender(folder)
        (folder / name).write_bytes(content)
    changes: tuple[dict[str, Any], ...] = (
        {"version": 2},
        {"format": "another"},
        {"budget": {"users": "many"}},
        {"charges": ["users#1"]},
        {"guarantee": {}},
        {"files": {"catalogue.json": "0", "../escape": "0"}},
    )
    for change in changes:
        head = json.loads(whole["recommender.json"])
        (folder / "recommender.json").write_text(json.dumps(head | change))
        with pytest.raises(UnreadableFile):
            load_recommender(folder)


def test_a_place_is_checked_before_anything_is_paid(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="expected a folder"):
        check_place(tmp_path / "file")
    check_place(tmp_path / "new")
    (tmp_path / "new").mkdir()
    check_place(tmp_path / "new")


def test_a_recommender_replaces_an_earlier_one_and_nothing_else(
    service: ReleaseService, tmp_path: Path
) -> None:
    opened(service.vault)
    folder = tmp_path / "made"
    save_recommender(train(service, SHOP, TERMS), folder)
    (folder / "assessment.json").write_text("{}")
    check_place(folder)
    (folder / "recommender.json").write_text('{"format": "voile recommender", "version": 1}')
    check_place(folder)  # broken off
    with pytest.raises(UnreadableFile, match="training was interrupted"):
        load_recommender(folder)
    (folder / "notes.txt").write_text("mine")
    with pytest.raises(InvalidInput, match=r"other files than a recommender \(notes.txt\)"):
        check_place(folder)
    (folder / "notes.txt").unlink()
    (folder / "recommender.json").unlink()
    with pytest.raises(InvalidInput, match="other files than a recommender"):
        check_place(folder)
