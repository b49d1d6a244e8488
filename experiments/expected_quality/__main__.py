"""Write the table of `voile federate --preview`: `python -m experiments.expected_quality`.

About fifteen minutes of one core. `VOILE_DATA=... python -m experiments.expected_quality.check`
then compares it with data that it was not made from.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from importlib.resources import files
from operator import mul
from pathlib import Path
from statistics import fmean, stdev
from typing import Final

from benchmarks.harness import Figure, write

from experiments.expected_quality.setting import (
    DELTA,
    EPSILONS,
    FEATURES,
    ROWS,
    Outcome,
    generated,
    outcome,
)
from voile.app.federate.expectation import ACCURACY, FIDELITY, TABLE, StudiedNoise
from voile.pipelines.objectives import BLACK_BOX, SURROGATE

SEEDS: Final = (0, 1)
STAGES: Final[dict[str, dict[str, str]]] = {
    "private explainer": {BLACK_BOX: ACCURACY, SURROGATE: FIDELITY},
    "logistic regression": {"logistic regression": ACCURACY},
}
"""What was measured of each stage of a pipeline."""
EDGES: Final = (0.003, 0.006, 0.0125, 0.025, 0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2)
WIDTH: Final = 2.2
"""Standard deviations of a 95 % interval, for a dozen and more cases in a line of the table."""
FEWEST: Final = 8
ANY: Final = 1e9
"""More noise than any federation has."""


def main() -> int:
    found = []
    for seed in SEEDS:
        for number, case in enumerate(generated(seed)):
            for pipeline in STAGES:
                each = outcome(case, pipeline, seed=1_000 * seed + number)
                print(json.dumps(asdict(each)), flush=True)
                found.append(each)
    record(found)
    return 0


def record(found: Sequence[Outcome]) -> None:
    """The table of the package, and the same figures for the documentation."""
    table = {
        pipeline: {stage: lines(found, pipeline, stage) for stage in stages}
        for pipeline, stages in STAGES.items()
    }
    plain = {
        pipeline: {stage: [asdict(line) for line in each] for stage, each in stages.items()}
        for pipeline, stages in table.items()
    }
    place = Path(str(files("voile.app.federate") / TABLE))
    place.write_text(json.dumps(plain, indent=1) + "\n", encoding="utf-8")
    write(
        "expected_quality",
        "of an accuracy the share kept of a plain model's gain; ± half of a 95 % interval",
        [
            figure
            for pipeline, stages in table.items()
            for stage, each in stages.items()
            for figure in _figures(f"{pipeline}, {stage}", each)
        ],
        seed=SEEDS,
        command="python -m experiments.expected_quality",
        epsilons=EPSILONS,
        delta=DELTA,
        rows=ROWS,
        features=FEATURES,
        federations=len(found),
    )


def lines(found: Sequence[Outcome], pipeline: str, stage: str) -> list[StudiedNoise]:
    """One for each stretch of noise with enough federations in it."""
    own = [each for each in found if each.pipeline == pipeline]
    made = _kept_fidelity if STAGES[pipeline][stage] == FIDELITY else _kept_accuracy
    figure = STAGES[pipeline][stage]
    return [
        StudiedNoise(edge, figure, *made(cases, f"{figure} of the {stage}"))
        for edge, cases in _stretches(own, stage)
    ]


def _kept_accuracy(cases: Sequence[Outcome], figure: str) -> tuple[float, float]:
    """The slope of the gain over a constant answer on that of a plain model, and the residuals."""
    plain = [each.attainable.accuracy - each.attainable.majority for each in cases]
    gains = [each.figures[figure] - each.attainable.majority for each in cases]
    kept = sum(map(mul, plain, gains)) / max(sum(map(mul, plain, plain)), 1e-12)
    left = [(gain - kept * each) ** 2 for gain, each in zip(gains, plain, strict=True)]
    return kept, WIDTH * math.sqrt(fmean(left))


def _kept_fidelity(cases: Sequence[Outcome], figure: str) -> tuple[float, float]:
    seen = [each.figures[figure] for each in cases]
    return fmean(seen), WIDTH * stdev(seen)


def _stretches(own: Sequence[Outcome], stage: str) -> Iterator[tuple[float, list[Outcome]]]:
    """Edges of noise with the federations below; few ones are joined with the next."""
    waiting: list[Outcome] = []
    done = 0.0
    for edge in (*EDGES, ANY):
        waiting += [each for each in own if done < each.noise[stage] <= edge]
        left = sum(each.noise[stage] > edge for each in own)
        done = edge
        if len(waiting) >= FEWEST and (left >= FEWEST or edge == ANY):
            yield edge, waiting
            waiting = []


def _figures(what: str, table: Sequence[StudiedNoise]) -> Iterator[Figure]:
    for line in table:
        noise = "more noise" if line.up_to == ANY else f"noise to signal up to {line.up_to:g}"
        yield Figure(f"{what}, {noise}: {line.figure}", "", line.kept, None, None)
        yield Figure(f"{what}, {noise}: ±", "", line.spread, None, None)


if __name__ == "__main__":
    raise SystemExit(main())
