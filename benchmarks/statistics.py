"""What private statistics cost: a fit, explanations, and three rounds over the secure sum.

Data come from the generated clinic, 12 features. A fit is three releases with the exact sampler and
the model; charging is not part of it. Peers, in turn in the same run: scikit-learn's logistic
regression without privacy, DP-EBM (interpret-core 0.7.8), logistic regression of diffprivlib. The
last two need not be installed: then their stored figures stay, if there are any. diffprivlib 0.6.6
does not load beside scikit-learn 1.9: it was measured beside 1.5.2.
"""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from experiments.private_statistics.federated import trained
from experiments.private_statistics.peers import RATE, dp_ebm_of
from experiments.private_statistics.setting import DELTA, HEADLINE, account_rho, fitted

from benchmarks.harness import RESULTS, Figure, alternate, compare, write
from voile.core.one_thread import one_thread
from voile.datasets import Dataset, clinic_federation
from voile.models.additive import AdditiveModel
from voile.release.statistics import LabelledRecords

SEED, ROWS, EXPLAINED, PARTIES, THRESHOLD = 0, 16_000, 200_000, 50, 40
NAME = "statistics"
EBM = f"fit of {ROWS:,} rows, 12 features; peer: DP-EBM"
DIFFPRIVLIB = f"fit of {ROWS:,} rows, 12 features; peer: logistic regression of diffprivlib"


def run() -> None:
    with one_thread(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        data = clinic_federation(ROWS // 8, seed=SEED).together()
        model = _fit(data)
        figures = [*fits(data), *explanations(model), federation()]
    peer = "plain scikit-learn; other private learners"
    write(NAME, peer, figures, seed=SEED, unit="CPU time of one thread")


# --- fits -----------------------------------------------------------------------------------------


def _fit(data: Dataset) -> AdditiveModel:
    records = LabelledRecords.read(data.rows, data.schema, data.labels)
    return fitted(records, data.schema, account_rho(HEADLINE)).model


def fits(data: Dataset) -> list[Figure]:
    peers: dict[str, Callable[[], object]] = {
        f"fit of {ROWS:,} rows, 12 features; peer: plain logistic regression": _plain(data)
    }
    for what, peer in ((EBM, _ebm), (DIFFPRIVLIB, _diffprivlib)):
        try:
            peers[what] = peer(data)
        except ImportError as error:
            print(f"{what}: skipped ({error})")
    ours, *theirs = alternate([_seconds(lambda: _fit(data)), *map(_seconds, peers.values())])
    figures = [compare(what, "s", ours, each) for what, each in zip(peers, theirs, strict=True)]
    return figures + [figure for what in (EBM, DIFFPRIVLIB) if what not in peers
                      for figure in _stored(what)]  # fmt: skip


def _plain(data: Dataset) -> Callable[[], object]:
    from sklearn.linear_model import LogisticRegression

    return lambda: LogisticRegression(max_iter=500).fit(data.encoded, data.labels)


def _ebm(data: Dataset) -> Callable[[], object]:
    labels = data.labels.astype(int)
    dp_ebm_of(data.schema, HEADLINE, RATE)
    return lambda: dp_ebm_of(data.schema, HEADLINE, RATE).fit(data.rows, labels)


def _diffprivlib(data: Dataset) -> Callable[[], object]:
    from diffprivlib.models import LogisticRegression  # type: ignore[import-not-found]

    norm = float(np.sqrt(data.encoded.shape[1]))
    return lambda: LogisticRegression(epsilon=HEADLINE, data_norm=norm).fit(
        data.encoded, data.labels
    )


def _stored(what: str) -> list[Figure]:
    path = RESULTS / f"{NAME}.json"
    found = json.loads(path.read_text("utf-8"))["figures"] if path.is_file() else []
    return [Figure(**each) for each in found if each["what"] == what]


def _seconds(work: Callable[[], object]) -> Callable[[], float]:
    def measure() -> float:
        start = time.process_time()
        work()
        return time.process_time() - start

    return measure


# --- explanations ---------------------------------------------------------------------------------


def explanations(model: AdditiveModel) -> list[Figure]:
    """Rows of a second of CPU time."""
    rows = clinic_federation(EXPLAINED // 8, seed=SEED + 1).together().rows
    codes = model.codes(rows)
    ways: dict[str, tuple[Callable[[], Any], float | None]] = {
        "explain 12 features, from raw values": (
            lambda: model.explain_codes(model.codes(rows)),
            1e6,
        ),
        "explain 12 features, from bin codes": (lambda: model.explain_codes(codes), 5e6),
        "explain 12 features, with errors and guarantee": (lambda: model.explain(rows), None),
    }
    found = alternate([_seconds(way) for way, _ in ways.values()])
    return [
        _rate(what, len(rows) / seconds, least)
        for (what, (_, least)), seconds in zip(ways.items(), found, strict=True)
    ]


def _rate(what: str, ours: float, least: float | None) -> Figure:
    if least is None:
        return Figure(what, "rows/s", ours, None, None)
    return Figure(what, "rows/s", ours, None, None, f"at least {least:,.0f}", ours >= least)


# --- a federation ---------------------------------------------------------------------------------


def federation() -> Figure:
    """All three rounds of 50 parties with about 100 rows each: the work of all of them."""
    data = clinic_federation(100 * PARTIES // 8, seed=SEED).together()
    parties = {
        f"party {place:02}": LabelledRecords.read(
            data.rows[place::PARTIES], data.schema, data.labels[place::PARTIES]
        )
        for place in range(PARTIES)
    }

    def work() -> None:
        found = trained(data.schema, parties, epsilon=HEADLINE, delta=DELTA, threshold=THRESHOLD)
        assert found.model.bins

    seconds = alternate([_seconds(work)], rounds=1, warm_up=0)[0]
    what = f"three rounds over the secure sum, {PARTIES} parties, all of their work"
    return Figure(what, "s", seconds, None, None)
