"""The item side of a recommender, and an explanation with its receipt, beside cornac and implicit.

Invented interactions: 3,000 users, 1,500 items of 18 genres, about 100 items a user. Peers are
looked for in the folder that the environment variable VOILE_PEERS names, which is not part of any
environment of voile:

    pip install --no-deps --target FOLDER cornac==3.0.1 implicit==0.7.3 powerlaw mpmath

An explanation is one to the user herself, from the question to the durable record (SQLite, every
commit forced to the disk), 400 users one after the other; the peer is the published latency. In
turn with it the bare driver commits rows of the same size to a file of its own: where its 95th
percentile is high, disk or machine were busy, whatever voile did.
"""

from __future__ import annotations

import importlib
import os
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from experiments.lib.recommenders.measuring import Split, measure, per_user_holdout
from experiments.lib.recommenders.twins import ImplicitFactors, exact_autoencoder, exact_factors

from benchmarks.harness import Figure, compare, write
from voile.app.budget import open_budget
from voile.app.explain import ReleaseService
from voile.app.recommend import (
    RecommendationSpec,
    TrainedRecommender,
    TrainingTerms,
    answer,
    train,
)
from voile.core.guarantee import Protected, ProtectedUnit, Relation
from voile.recommenders import Catalogue, Interactions, LinearRecommender, interactions_of
from voile.records.ledger import Children, Opening
from voile.records.vault import open_vault

SEED = 1
USERS, ITEMS, GENRES = 3_000, 1_500, 18
CALLS, WARM_UP = 400, 40
PUBLISHED_MS = 127.0
_BARE_ROW = (bytes(900), bytes(256))
"""About a record of the log, and the edge of its tree."""
USER = Protected(ProtectedUnit.USER, Relation.BLANK_ONE, "invented shop")


def interactions() -> Interactions:
    """Users with a taste for a few genres, items of different popularity."""
    draw = np.random.default_rng(SEED)
    genre = draw.integers(0, GENRES, (ITEMS, 2))
    labels = tuple(tuple(dict.fromkeys(f"genre {g:02}" for g in row)) for row in genre.tolist())
    catalogue = Catalogue("invented", tuple(map(str, range(ITEMS))), {"genre": labels})
    taste = draw.gamma(0.3, size=(USERS, GENRES)) + 0.02
    weight = taste[:, genre].sum(axis=2) * draw.pareto(1.5, ITEMS)[np.newaxis]
    chance = np.minimum(0.9, 100 * weight / weight.sum(axis=1, keepdims=True))
    user, item = np.nonzero(draw.random((USERS, ITEMS)) < chance)
    return interactions_of({"user": user, "item": item}, catalogue)


def run() -> None:
    split = per_user_holdout(interactions(), share=0.2, seed=SEED)
    figures = [*item_side_of_peers(split), *explanations(split.given)]
    write("recommenders", "cornac, implicit, published latency", figures, seed=SEED)


# --- peers ----------------------------------------------------------------------------------------


def item_side_of_peers(split: Split) -> list[Figure]:
    started = time.perf_counter()
    ours = exact_autoencoder(split.given)
    ease_seconds = time.perf_counter() - started
    started = time.perf_counter()
    factors = exact_factors(split.given, rank=32, confidence=2.0, ridge=20.0, sweeps=6)
    als_seconds = time.perf_counter() - started
    cornac, implicit = peer("cornac"), peer("implicit.als")
    if cornac is None or implicit is None:
        quality = measure(ours, split).ndcg
        return [Figure("EASE, NDCG@10, full ranking", "", quality, None, None)]
    theirs, their_seconds = cornac_ease(cornac, split.given)
    one, two = measure(ours, split).ndcg, measure(theirs, split).ndcg
    als, als_peer_seconds = implicit_als(implicit, split.given)
    return [
        Figure("EASE, NDCG@10, full ranking, peer cornac", "", one, two, one / two),
        Figure(
            "EASE, NDCG@10, difference to cornac",
            "",
            abs(one - two),
            None,
            None,
            "at most 1e-4",
            abs(one - two) <= 1e-4,
        ),
        compare("EASE, fitting, peer cornac", "s", ease_seconds, their_seconds),
        compare(
            "ALS, rank 32, NDCG@10, full ranking, peer implicit",
            "",
            measure(factors, split).ndcg,
            measure(als, split).ndcg,
        ),
        compare("ALS, 6 sweeps, peer implicit (native code)", "s", als_seconds, als_peer_seconds),
    ]


def peer(module: str) -> Any:
    """A package of the peers' own folder, or nothing."""
    folder = os.environ.get("VOILE_PEERS")
    if folder is None:
        return None
    sys.path.append(folder)
    try:
        return importlib.import_module(module)
    except ImportError:
        return None
    finally:
        sys.path.remove(folder)


def cornac_ease(cornac: Any, given: Interactions) -> tuple[LinearRecommender, float]:
    """Its weights in our recommender: what is compared is the fit."""
    triples = list(
        zip(given.user.tolist(), given.item.tolist(), [1.0] * len(given.item), strict=True)
    )
    data = cornac.data.Dataset.from_uir(triples)
    model = cornac.models.EASE(lamb=500, posB=False, verbose=False)
    started = time.perf_counter()
    model.fit(data)
    seconds = time.perf_counter() - started
    count = len(given.catalogue)
    places = np.array([model.iid_map.get(place, -1) for place in range(count)])
    known = np.flatnonzero(places >= 0)
    weights = np.zeros((count, count))
    weights[np.ix_(known, known)] = model.B[np.ix_(places[known], places[known])]
    through = np.zeros((count, given.catalogue.features.shape[1]))
    popularity = np.asarray(given.matrix.sum(axis=0)).reshape(-1)
    return (
        LinearRecommender(given.catalogue, popularity, np.arange(count), weights, through),
        seconds,
    )


def implicit_als(implicit: Any, given: Interactions) -> tuple[ImplicitFactors, float]:
    from scipy import sparse

    # It counts an interaction of weight w as confidence w, ours as 1 + confidence.
    weighted = sparse.csr_matrix(given.matrix * 3.0)
    model = implicit.AlternatingLeastSquares(
        factors=32,
        regularization=20.0,
        iterations=6,
        num_threads=1,
        random_state=SEED,
        use_cg=False,
    )
    started = time.perf_counter()
    model.fit(weighted, show_progress=False)
    seconds = time.perf_counter() - started
    return ImplicitFactors(
        given.catalogue, np.asarray(model.item_factors, float), 2.0, 20.0
    ), seconds


# --- voile ----------------------------------------------------------------------------------------


def explanations(given: Interactions) -> list[Figure]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "shop"
        with open_vault(path, "example.org/shop", signing=None) as vault:
            opening = Opening(
                name="users",
                protected=USER,
                epsilon=3.0,
                delta=1e-6,
                children=Children.PARALLEL,
            )
            open_budget(vault.storage, vault.ledger, vault.log, opening, caller="benchmark")
            service = ReleaseService(vault)
            drawing, trained, fitting = trained_model(service, given)
            specs = [
                RecommendationSpec(caller="user", user=name, by="genre")
                for name in given.users[: CALLS + WARM_UP]
            ]
            bare_commit = bare_driver(Path(folder) / "bare.db")
            calls, bare, cpu = [], [], []
            for spec in specs:
                spent = time.process_time()
                calls.append(timed(lambda: answer(service, trained, given, spec)))  # noqa: B023
                cpu.append(1000 * (time.process_time() - spent))
                bare.append(timed(bare_commit))
            found = answer(service, trained, given, specs[0])
            started = time.perf_counter()
            vault.publish()
            service.receipts(found)
            receipt = 1000 * (time.perf_counter() - started)
    middle = statistics.median(calls[WARM_UP:])
    p95, bare_p95 = (statistics.quantiles(each[WARM_UP:], n=20)[-1] for each in (calls, bare))
    of_cpu = statistics.mean(cpu[WARM_UP:])
    return [
        Figure("both releases, charged, drawn by the exact sampler", "s", drawing, None, None),
        Figure("model from the moments", "s", fitting, None, None, "at most 5", fitting <= 5),
        compare("explanation by genre, durable, median", "ms", middle, PUBLISHED_MS),
        Figure("explanation by genre, durable, CPU of this process", "ms", of_cpu, None, None),
        Figure(
            "explanation by genre, durable, 95th percentile",
            "ms",
            p95,
            PUBLISHED_MS,
            p95 / PUBLISHED_MS,
            "at most 5 ms",
            p95 <= 5,
        ),
        compare("the same, peer one commit of the bare driver in turn", "ms", p95, bare_p95),
        Figure("checkpoint signed and receipt issued", "ms", receipt, None, None),
    ]


def trained_model(
    service: ReleaseService, given: Interactions
) -> tuple[float, TrainedRecommender, float]:
    terms = TrainingTerms(account="users", epsilon=2.0, delta=1e-6)
    started = time.perf_counter()
    moments = train(service, given, terms)
    drawn = time.perf_counter()
    trained = TrainedRecommender(moments)
    _ = trained.linear, trained.digest
    return drawn - started, trained, time.perf_counter() - drawn


def bare_driver(path: Path) -> Callable[[], object]:
    """One commit of the two rows that a record of the log is, with nothing computed for it."""
    connection = sqlite3.connect(path, isolation_level=None)
    for line in (
        "PRAGMA journal_mode = WAL",
        "PRAGMA synchronous = FULL",
        "CREATE TABLE leaves (number INTEGER PRIMARY KEY, record BLOB, completed BLOB)",
        "CREATE TABLE heads (id INTEGER PRIMARY KEY, edge BLOB)",
    ):
        connection.execute(line)

    def commit() -> None:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("INSERT INTO leaves (record, completed) VALUES (?, ?)", _BARE_ROW)
        connection.execute("REPLACE INTO heads VALUES (1, ?)", _BARE_ROW[1:])
        connection.execute("COMMIT")

    return commit


def timed(work: Callable[[], object]) -> float:
    """Milliseconds."""
    started = time.perf_counter()
    work()
    return 1000 * (time.perf_counter() - started)
