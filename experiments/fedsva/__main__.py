"""Write `results/fedsva*.json` and the pictures: `python -m experiments.fedsva`.

About twelve minutes of one core. `--quick` (two minutes) makes Tables 1 and 2 and the controls with
one seed and 20 rounds, and writes to the folder of runs only; `--long` (estimated at an hour) has
five seeds and 400 rounds.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Final

from benchmarks import harness

from experiments.fedsva import attacked, table
from experiments.fedsva.controls import write_controls
from experiments.fedsva.kept import Kept
from experiments.fedsva.table import Runs
from experiments.fedsva.targets import write_targets

SEEDS: Final = (11, 12, 13, 14, 15)
PARTS: Final[dict[str, Callable[[Runs], None]]] = {
    "table": table.write_table,
    "targets": write_targets,
    "attacks": attacked.write_attacks,
    "controls": write_controls,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], help="if none is named, all")
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--quick", action="store_true", help="one seed, 20 rounds")
    size.add_argument(
        "--long", action="store_true", help="five seeds instead of two, 400 rounds as printed"
    )
    parser.add_argument("--kept", type=Path, default=Path("fedsva-runs"), help="folder of runs")
    said = parser.parse_args()
    docs = harness.ROOT / "docs"
    if said.quick:
        harness.RESULTS = docs = said.kept
        said.kept.mkdir(parents=True, exist_ok=True)
    seeds = SEEDS[: 1 if said.quick else 5 if said.long else 2]
    runs = Runs(Kept(said.kept), seeds, 20 if said.quick else 400 if said.long else 100)
    parts = said.parts or (["table", "controls"] if said.quick else list(PARTS))
    for part in parts:
        PARTS[part](runs)
    if "table" in parts:
        print(table.draw(runs, docs / "fedsva.png"))
    if "attacks" in parts:
        print(attacked.draw_inversions(runs, docs / "gradient-inversion.png"))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
