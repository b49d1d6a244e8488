"""Write `results/clipping_rule.json`: `VOILE_DATA=... python -m experiments.clipping_rule`.

Every way of keeping gradients short, at the same (1, 1e-5) for each client. About half an hour of
one core.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Final

from benchmarks.harness import Figure, compare, write

from experiments.clipping_rule.setting import CLIENTS, DELTA, EPSILON, Way, case, trained
from experiments.lib.datasets.catalogue import SOURCES

SEEDS: Final = (0, 1)
NORMS: Final[Mapping[str, Mapping[str, tuple[float, ...]]]] = {
    "surrogate": {"divergence": (0.05, 0.15, 0.5, 1.5), "squared": (0.3, 1.0)},
    "classifier": {"divergence": (0.5, 2.0, 4.0, 8.0), "squared": (1.0, 2.0, 4.0)},
}
SHARES: Final = {"surrogate": (0.5, 0.8), "classifier": (0.8,)}
START: Final = {"surrogate": 0.5, "classifier": 2.0}
MEASURE: Final = {"surrogate": "cosine", "classifier": "accuracy"}


@dataclass(frozen=True)
class Score:
    """What one way reached, for each seed."""

    task: str
    name: str
    size: int
    way: Way | None
    figures: tuple[float, ...]

    @property
    def mean(self) -> float:
        return fmean(self.figures)


def ways(task: str) -> list[Way | None]:
    """Without privacy; fixed norms with either loss; norms that are adapted."""
    fixed = [Way(loss, norm) for loss, norms in NORMS[task].items() for norm in norms]
    adapted = [Way("divergence", START[task], share) for share in SHARES[task]]
    return [None, *fixed, *adapted]


def scores(name: str) -> Iterator[Score]:
    for size in CLIENTS[name]:
        given = case(name, size)
        for task in NORMS:
            for way in ways(task):
                each = [given.judge(task, trained(given, task, way, seed)) for seed in SEEDS]
                figures = tuple(judged[MEASURE[task]] for judged in each)
                yield Score(task, name, size, way, figures)


def shown(found: Sequence[Score]) -> list[Figure]:
    """Every way beside training without privacy, in one order."""
    twins = {(s.task, s.name, s.size): s.mean for s in found if s.way is None}
    private = [score for score in found if score.way is not None]
    order = sorted(private, key=lambda s: (s.task, s.name, s.size))
    return [
        compare(
            f"{s.task}, {s.name}, {s.size:,} rows a client: {s.way}",
            MEASURE[s.task],
            s.mean,
            twins[s.task, s.name, s.size],
        )
        for s in order
    ]


def main() -> int:
    found = []
    for name in CLIENTS:
        for score in scores(name):
            print(score, flush=True)
            found.append(score)
    record(found)
    return 0


def record(found: Sequence[Score]) -> None:
    write(
        "clipping_rule",
        "on rows held out, mean over seeds; the peer is training without privacy",
        shown(found),
        seed=SEEDS,
        command="VOILE_DATA=... python -m experiments.clipping_rule",
        data_checksum=str(dict(SOURCES["adult"].files)),
        epsilon=EPSILON,
        delta=DELTA,
        clients={name: {str(n): c for n, c in sizes.items()} for name, sizes in CLIENTS.items()},
    )


if __name__ == "__main__":
    raise SystemExit(main())
