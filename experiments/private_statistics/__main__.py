"""Private statistics on the five data sets of the study behind the frozen rule.

    VOILE_DATA=... python -m experiments.private_statistics [PART ...] [--sets NAME ...]
                                                            [--splits N] [--draws N]

Everything is at delta = 1e-5, for the unit row under zero-out, with noise from the exact sampler.
Parts, each with a result file of its own (all of them, if none is named):

- headline: at ε = 2, as an account charges it, beside models without privacy, DP-EBM and a network
  by DP-SGD. A peer that is not installed is skipped; its stored figures stay.
- study: the table of the study, at its noise and at that of an account. "pooled" is the noise of
  one data set, "local" that of all parties, each with its own.
- coverage: how often intervals of ±1.96 errors hold the Shapley values of the model without noise
  on the same bins, and how explanations of two draws agree with each other and with that model.
- small: federations of 8 parties with 100 rows each, with shared and with local noise.
- boosted: what boosting on noisy histograms adds to the additive model, at the same epsilon.
- targets: several classes and numbers, beside models without privacy.

With `--sets` nothing is written.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any

from benchmarks.harness import write

from experiments.lib.datasets.catalogue import SOURCES
from experiments.private_statistics.boosted import boosted_table
from experiments.private_statistics.coverage import coverage_table
from experiments.private_statistics.headline import headline_table
from experiments.private_statistics.setting import STUDIES, Study
from experiments.private_statistics.small import small_table
from experiments.private_statistics.study import study_table
from experiments.private_statistics.targets import targets_table
from voile.privacy.mechanisms import WeakPrivacyWarning

Part = Callable[[Sequence[Study], argparse.Namespace], dict[str, Any]]
PARTS: dict[str, tuple[str, Part]] = {
    "headline": (
        "private_statistics_peers",
        lambda studies, chosen: headline_table(studies, chosen.splits),
    ),
    "study": (
        "private_statistics",
        lambda studies, chosen: study_table(studies, chosen.splits),
    ),
    "small": (
        "private_statistics_small",
        lambda studies, chosen: small_table(studies, chosen.splits),
    ),
    "targets": (
        "private_statistics_targets",
        lambda studies, chosen: targets_table(chosen.splits),  # noqa: ARG005
    ),
    "boosted": (
        "private_statistics_boosted",
        lambda studies, chosen: boosted_table(studies, chosen.splits),
    ),
    "coverage": (
        "private_statistics_coverage",
        lambda studies, chosen: coverage_table(studies, chosen.draws),
    ),
}
"""By name: the result file, and what it holds."""


def main() -> int:
    warnings.simplefilter("ignore", WeakPrivacyWarning)
    chosen = _arguments()
    studies = [each for each in STUDIES if chosen.sets is None or each.name in chosen.sets]
    for part in chosen.parts or PARTS:
        start = time.process_time()
        name, table = PARTS[part]
        content = table(studies, chosen)
        print(f"{part}: {time.process_time() - start:.0f} s of CPU", flush=True)
        if chosen.sets is None:
            write(
                name,
                seed=list(range(chosen.splits)),
                command=f"python -m experiments.private_statistics {part} "
                f"--splits {chosen.splits} --draws {chosen.draws}",
                data_checksum=" ".join(SOURCES[each.name].checksum[:16] for each in STUDIES),
                **content,
            )
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", help=f"of {', '.join(PARTS)}", metavar="PART")
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--draws", type=int, default=200)
    parser.add_argument("--sets", nargs="+", choices=[each.name for each in STUDIES])
    chosen = parser.parse_args()
    unknown = sorted(set(chosen.parts) - set(PARTS))
    if unknown:
        parser.error(f"no part is called {', '.join(unknown)}")
    return chosen


if __name__ == "__main__":
    raise SystemExit(main())
