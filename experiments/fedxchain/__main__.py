"""Write `results/fedxchain*.json` and a picture: `python -m experiments.fedxchain`.

About half an hour of two cores, and as long again for `private`, which needs VOILE_DATA; `--quick`
takes two seeds and fewer parties, and writes to the folder of runs only.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from benchmarks import harness

from experiments.fedxchain.growth import write_growth, write_price
from experiments.fedxchain.kept import Kept
from experiments.fedxchain.private_attacks import write_private
from experiments.fedxchain.robustness import write_robustness
from experiments.fedxchain.stable import write_stable
from experiments.fedxchain.tables import draw, write_tables

SEEDS = (11, 12, 13, 14, 15)
PARTS = ("tables", "picture", "robustness", "stable", "price", "growth", "private")
PRIVATE_SEEDS = tuple(range(11, 21))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], help="all, if none is named")
    parser.add_argument("--quick", action="store_true", help="two seeds, at most 100 parties")
    parser.add_argument("--kept", type=Path, default=Path("fedxchain-runs"), help="folder of runs")
    parser.add_argument("--seeds", type=int, help="of the part `private`: how many")
    said = parser.parse_args()
    seeds, parts = SEEDS[:2] if said.quick else SEEDS, said.parts or PARTS
    picture = harness.ROOT / "docs" / "fedxchain.png"
    if said.quick:  # what is published comes of all seeds
        harness.RESULTS, picture = said.kept, said.kept / "fedxchain.png"
        said.kept.mkdir(parents=True, exist_ok=True)
    kept = Kept(said.kept)
    if "tables" in parts:
        write_tables(kept, seeds, "fedxchain")
    if "picture" in parts:
        print(draw(kept, seeds, picture))
    if "robustness" in parts:
        write_robustness(kept, seeds, "fedxchain_robustness")
    if "stable" in parts:
        write_stable(kept, seeds, "fedxchain_stable")
    if "price" in parts:
        write_price(kept, seeds, "fedxchain_price")
    if "growth" in parts:
        write_growth(kept, seeds[:3], "fedxchain_growth", most=100 if said.quick else 500)
    if "private" in parts:
        few = PRIVATE_SEEDS[: said.seeds or (2 if said.quick else len(PRIVATE_SEEDS))]
        write_private(said.kept, few, "fedxchain_private")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
