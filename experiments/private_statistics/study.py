"""The table of the study behind the frozen rule, at its own noise and at that of an account."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from benchmarks.harness import Figure

from experiments.private_statistics.setting import (
    EPSILONS,
    Data,
    Study,
    account_rho,
    mean_pair,
    plain_scores,
    private_scores,
    study_rho,
)

CLOSE = {"pooled": 0.01, "local": 0.015}
"""How far from the study's figures is within noise of a few splits."""
COLUMNS = ("AUC / log-loss", "noise", *(f"ε = {epsilon:g}" for epsilon in EPSILONS))


def study_table(studies: Sequence[Study], splits: int) -> dict[str, Any]:
    figures: list[Figure] = []
    lines: list[list[str]] = []
    for study in studies:
        data = Data.load(study)
        found = [*at_an_account(study, data, splits), *repeated(study, data, splits)]
        lines += table_lines(study, found)
        figures += found
    return {"peer": "study", "figures": figures, "columns": COLUMNS, "rows": lines}


def repeated(study: Study, data: Data, splits: int) -> list[Figure]:
    """The study's table at the study's noise."""
    figures = []
    for noise, parties in (("pooled", 1), ("local", study.parties)):
        for epsilon in EPSILONS:
            found = private_scores(data, study_rho(epsilon), splits, parties)
            figures += [
                Figure(
                    f"{study.title}, {noise}, ε = {epsilon:g}: {what}",
                    "",
                    ours,
                    peer,
                    ours / peer,
                    f"within {CLOSE[noise]:g} of the study, or better",
                    (peer - ours) * sign <= CLOSE[noise],
                )
                for what, ours, peer, sign in zip(
                    ("AUC", "log-loss"),
                    found,
                    study.published[noise][epsilon],
                    (1, -1),
                    strict=True,
                )
            ]
            print(f"{study.title}, {noise}, {epsilon:g}: {found[0]:.4f} {found[1]:.4f}", flush=True)
    return figures


def at_an_account(study: Study, data: Data, splits: int) -> list[Figure]:
    """At the noise of an account, beside models without privacy."""
    plain = [plain_scores(data, seed) for seed in range(splits)]
    linear, boosted = (
        mean_pair([each[name] for each in plain]) for name in ("plain LR", "boosting")
    )
    names = ("AUC", "log-loss")
    figures = [
        Figure(f"{study.title}, boosting without privacy: {what}", "", ours, peer, None)
        for what, ours, peer in zip(names, boosted, linear, strict=True)
    ]
    for epsilon in EPSILONS:
        found = private_scores(data, account_rho(epsilon), splits)
        at = f"{study.title}, an account of ε = {epsilon:g} beside plain LR"
        figures += [
            Figure(f"{at}: {what}", "", ours, peer, ours / peer)
            for what, ours, peer in zip(names, found, linear, strict=True)
        ]
        print(f"{at}: {found[0]:.4f} {found[1]:.4f} / {linear[0]:.4f} {linear[1]:.4f}", flush=True)
    return figures


def table_lines(study: Study, figures: Sequence[Figure]) -> list[list[str]]:
    """One line without privacy, then one for each kind of noise."""

    def pair(of: str, *, peer: bool = False) -> str:
        found = [figure for figure in figures if figure.what.startswith(of)]
        return " / ".join(f"{(each.peer if peer else each.ours) or 0:.3f}" for each in found)

    account = f"{study.title}, an account of ε = "
    plain = pair(f"{account}{EPSILONS[0]:g} ", peer=True)
    boosted = pair(f"{study.title}, boosting")
    without = f"without privacy: plain LR {plain}, boosting {boosted}"
    lines = [[study.title, without, *("" for _ in EPSILONS)]]
    lines.append(["", "an account's", *(pair(f"{account}{each:g} ") for each in EPSILONS)])
    for kind in ("pooled", f"local, {study.parties} parties"):
        at = f"{study.title}, {kind.partition(',')[0]}, ε = "
        cells = [f"{pair(f'{at}{e:g}:')} ({pair(f'{at}{e:g}:', peer=True)})" for e in EPSILONS]
        lines.append(["", f"{kind}, the study's (study)", *cells])
    return lines
