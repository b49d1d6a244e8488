"""At ε = 2, as an account charges it: beside models without privacy and other private learners."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from benchmarks.harness import RESULTS, Figure

from experiments.private_statistics.peers import (
    RATE,
    Scores,
    dp_ebm_scores,
    is_installed,
    network_scores,
)
from experiments.private_statistics.setting import (
    HEADLINE,
    Data,
    Study,
    account_rho,
    mean_pair,
    plain_scores,
    private_score,
)

NAME: Final = "private_statistics_peers"
AREA, LOSS = 0.015, 0.025
"""What may be lost to logistic regression without privacy."""
OURS, LINEAR, BOOSTED = "voile", "plain LR", "boosting"
DEFAULT, BEST, NETWORK = "DP-EBM, default rate", "DP-EBM, best rate", "DP-SGD network"
LEARNERS = (OURS, LINEAR, BOOSTED, DEFAULT, BEST, NETWORK)
COLUMNS = (
    f"AUC / log-loss at ε = {HEADLINE:g}",
    OURS,
    f"{LINEAR}, no privacy",
    f"{BOOSTED}, no privacy",
    DEFAULT,
    BEST,
    NETWORK,
)
Found = dict[str, Scores]
"""By learner."""


def headline_table(studies: Sequence[Study], splits: int) -> dict[str, Any]:
    scores: dict[str, Found] = {}
    by_rate: dict[str, dict[str, Scores]] = {}
    has_ebm = is_installed("interpret")
    if not has_ebm:
        print("DP-EBM is not installed (interpret-core 0.7.8): its stored figures stay")
        by_rate = _stored().get("dp_ebm_by_rate", {})
    for study in studies:
        data = Data.load(study)
        found = scores[study.title] = _scores(data, splits)
        if has_ebm:
            by_rate[study.title] = _dp_ebm(data, splits)
        if study.title in by_rate:
            found |= dp_ebm_columns(by_rate[study.title])
        print(study.title, {name: _pair(each) for name, each in found.items()}, flush=True)
    verdicts = judged(scores)
    return {
        "peer": "peers at the same ε",
        "figures": [*_figures(scores), *verdicts],
        "columns": COLUMNS,
        "rows": [*_lines(scores, by_rate), *map(_verdict_line, verdicts)],
        "scores": scores,
        "dp_ebm_by_rate": by_rate,
    }


def _stored() -> dict[str, Any]:
    path = RESULTS / f"{NAME}.json"
    found: dict[str, Any] = json.loads(path.read_text("utf-8")) if path.is_file() else {}
    return found


def _scores(data: Data, splits: int) -> Found:
    """Means over splits of all that needs nothing else to be installed."""
    plain = [plain_scores(data, seed) for seed in range(splits)]
    rho = account_rho(HEADLINE)
    return {
        OURS: mean_pair([private_score(data, seed, rho) for seed in range(splits)]),
        LINEAR: mean_pair([each[LINEAR] for each in plain]),
        BOOSTED: mean_pair([each[BOOSTED] for each in plain]),
        NETWORK: mean_pair([network_scores(data, seed, HEADLINE) for seed in range(splits)]),
    }


def _dp_ebm(data: Data, splits: int) -> dict[str, Scores]:
    """By learning rate, written out."""
    found = [dp_ebm_scores(data, seed, HEADLINE) for seed in range(splits)]
    return {f"{rate:g}": mean_pair([each[rate] for each in found]) for rate in found[0]}


def dp_ebm_columns(by_rate: Mapping[str, Scores]) -> Found:
    """At its default rate, and at the best one."""
    default, best = by_rate[f"{RATE:g}"], by_rate[best_rate(by_rate)]
    return {DEFAULT: (default[0], default[1]), BEST: (best[0], best[1])}


def best_rate(by_rate: Mapping[str, Scores]) -> str:
    """That of the least log-loss on the test rows."""
    return min(by_rate, key=lambda rate: by_rate[rate][1])


# --- what it amounts to --------------------------------------------------------------------------


def judged(scores: Mapping[str, Found]) -> list[Figure]:
    """How many sets meet each target."""

    def count(what: str, least: int, holds: Callable[[Found], bool]) -> Figure:
        met = sum(holds(found) for found in scores.values())
        text = f"at least {least} of {len(scores)}"
        return Figure(f"sets {what}", "", met, None, None, text, met >= least)

    figures = [
        count(f"within {AREA:g} AUC and {LOSS:g} log-loss of {LINEAR}", 4, _is_close),
    ]
    if all(BEST in found for found in scores.values()):
        figures += [
            count(f"with less log-loss than {BEST}", 5, lambda each: each[OURS][1] < each[BEST][1]),
            count(f"with more AUC than {BEST}", 3, lambda each: each[OURS][0] > each[BEST][0]),
        ]
    return figures


def _is_close(found: Found) -> bool:
    (area, loss), (plain_area, plain_loss) = found[OURS], found[LINEAR]
    return plain_area - area <= AREA and loss - plain_loss <= LOSS


def _figures(scores: Mapping[str, Found]) -> list[Figure]:
    return [
        Figure(f"{title} beside {peer}: {what}", "", found[OURS][place], found[peer][place], None)
        for title, found in scores.items()
        for peer in LEARNERS[1:]
        if peer in found
        for place, what in enumerate(("AUC", "log-loss"))
    ]


def _lines(
    scores: Mapping[str, Found], by_rate: Mapping[str, Mapping[str, Scores]]
) -> list[list[str]]:
    def cell(title: str, learner: str) -> str:
        if learner not in scores[title]:
            return "not installed"
        rate = f" ({best_rate(by_rate[title])})" if learner == BEST else ""
        return _pair(scores[title][learner]) + rate

    return [[title, *(cell(title, learner) for learner in LEARNERS)] for title in scores]


def _verdict_line(figure: Figure) -> list[str]:
    verdict = "met" if figure.met else "**missed**"
    text = f"{figure.ours:g} {figure.what} (target: {figure.target}): {verdict}"
    return [text, *("" for _ in LEARNERS)]


def _pair(found: Scores) -> str:
    return f"{found[0]:.3f} / {found[1]:.3f}"
