"""What an attacker gets, plain and protected side by side, on the Dutch census.

    VOILE_DATA=... python -m experiments.attacks

Eleven features, a network trained on other rows. The census is published, so findings on it are;
it stands in for rows that are protected. Draws docs/attacks.png.
"""

from __future__ import annotations

import time

from benchmarks.harness import ROOT, Figure, write
from matplotlib import pyplot as plt

from experiments.attacks.explanations import (
    Attacked,
    background_membership,
    day_after,
    explained_row,
)
from experiments.attacks.training import (
    CANDIDATES,
    EXPLAINED,
    Trained,
    by_explanations,
    by_outputs,
    gradients,
    membership,
)
from experiments.lib.attacks.findings import AttackFinding
from experiments.lib.datasets.catalogue import SOURCES
from experiments.private_background.setting import dutch


def targets(findings: list[AttackFinding]) -> list[Figure]:
    """Each finding as two lines; what was aimed at stands beside them."""
    day, membership_found, row, *_ = findings
    aims = {
        day.attack: (0.99, 0.02),
        row.attack: (0.95, 0.02),
        membership_found.attack: (0.5, membership_found.bound),
    }
    figures = []
    for each in findings:
        least, most = aims.get(each.attack, (None, None))
        words = (
            f"{each.attack}: {each.measure}; ε = {each.epsilon:g}, δ = {each.delta:g}, "
            f"{each.rows} rows; blind guess {each.blind:.3g}"
        )
        goal, met = None, None
        if least is not None and most is not None:
            goal = f"plain at least {least:g}, protected at most {most:.3g}"
            met = each.plain >= least and each.protected <= most
        figures.append(Figure(words, "", each.protected, each.plain, None, goal, met))
    return figures


def draw_plot(findings: list[AttackFinding]) -> None:
    shown = findings[::-1]
    figure, axis = plt.subplots(figsize=(9, 0.55 * len(shown) + 1.2), layout="constrained")
    for place, each in enumerate(shown):
        axis.plot([each.protected, each.plain], [place, place], color="lightgrey", zorder=1)
        axis.plot([each.blind] * 2, [place - 0.3, place + 0.3], color="black", linewidth=1)
        axis.scatter(each.plain, place, color="#a8201a", zorder=2)
        axis.scatter(each.protected, place, color="#3949ab", zorder=3)
    axis.set_yticks(range(len(shown)), [each.attack for each in shown], fontsize=8)
    axis.set(xlim=(-0.03, 1.03), xlabel="share of right answers, or area under the curve")
    axis.set_title("without protection (red), with it (blue), blind guess (line)", fontsize=10)
    axis.grid(axis="x", alpha=0.3)
    figure.savefig(ROOT / "docs" / "attacks.png", dpi=110)
    plt.close(figure)


def main() -> int:
    start = time.time()
    attacked, trained = Attacked(dutch()), Trained.dutch()
    findings = [day_after(attacked), background_membership(attacked), explained_row(attacked)]
    findings += gradients(trained)
    findings += [
        membership(trained, "outputs", by_outputs(trained), CANDIDATES),
        membership(trained, "explanations", by_explanations(trained), EXPLAINED),
    ]
    draw_plot(findings)
    write(
        "attacks",
        "the same attack without protection",
        targets(findings),
        seed="coins and rows: 0 to 5; noise: fresh",
        command="VOILE_DATA=... python -m experiments.attacks",
        data_checksum=str(dict(SOURCES["dutch_census"].files)),
        seconds=round(time.time() - start),
        findings=[each.to_dict() for each in findings],
    )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
