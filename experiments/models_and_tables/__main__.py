"""All models × tables: `python -m experiments.models_and_tables`; a few minutes of one core."""

from __future__ import annotations

import sys
import time
import warnings
from dataclasses import asdict

from benchmarks.harness import Figure, write

from experiments.models_and_tables.cases import case, names
from experiments.models_and_tables.comparison import CLOSE, Comparison, compare


def main() -> int:
    warnings.simplefilter("ignore")  # of other people's libraries about each other
    wanted = sys.argv[1] if len(sys.argv) > 1 else ""
    start, found = time.time(), []
    for name in names():
        if wanted in name:
            found.append(compare(case(name)))
            print(found[-1], flush=True)
    if not wanted:
        _write(found, time.time() - start)
    return 0


def _write(found: list[Comparison], seconds: float) -> None:
    own = [each for each in found if each.to_own is not None]
    write(
        "models_and_tables",
        "shap on the same rows and background",
        [
            _figure("values as by shap's enumeration of all coalitions", found),
            _shap("values as by shap's TreeExplainer or LinearExplainer", own),
            Figure(
                "largest difference from the enumeration: voile, TreeExplainer",
                "of the largest value",
                max(each.to_enumeration for each in found),
                max(each.to_own or 0.0 for each in own),
                None,
            ),
        ],
        command="python -m experiments.models_and_tables",
        seed="data 1 and 2",
        seconds=round(seconds),
        tolerance=CLOSE,
        cases=[asdict(each) for each in found],
    )


def _figure(what: str, found: list[Comparison]) -> Figure:
    close = sum(each.is_close for each in found)
    share = close / len(found)
    return Figure(what, "cases", close, len(found), share, "all of them", share == 1)


def _shap(what: str, own: list[Comparison]) -> Figure:
    close = sum((each.to_own or 0.0) <= CLOSE for each in own)
    return Figure(what, "cases", close, len(own), close / len(own))


if __name__ == "__main__":
    raise SystemExit(main())
