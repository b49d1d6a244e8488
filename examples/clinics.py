"""The files of the first-hour pages: two clinics, people who may be looked at, people to explain.

Everybody in them is invented, and they are the same on every machine. Written into the current
folder, or another one; never over a file that is there.

    python examples/clinics.py
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import numpy as np

ROWS: Final = {"north": 400, "south": 400, "held-out": 300}
HEADER: Final = ("age", "smoker", "oxygen", "admissions", "readmitted")
PEOPLE: Final = (("71", "yes", "90.5", "4"), ("35", "no", "98.0", "0"), ("64", "", "95.1", "2"))


def main(folder: Path) -> list[Path]:
    """Write north.csv, south.csv, held-out.csv and people.csv; none of them may be there."""
    tables = {folder / f"{name}.csv": lines for name, lines in _tables()}
    there = [str(path) for path in tables if path.exists()]
    if there:
        raise FileExistsError(f"{', '.join(there)}: exists already; nothing was written")
    for path, lines in tables.items():
        with path.open("x", encoding="utf-8", newline="") as file:
            file.writelines(",".join(line) + "\n" for line in lines)
    return list(tables)


def _tables() -> Iterator[tuple[str, list[Sequence[str]]]]:
    draw = np.random.default_rng(8)
    for name, rows in ROWS.items():
        yield name, [HEADER, *(_patient(draw) for _ in range(rows))]
    yield "people", [HEADER[:-1], *PEOPLE]


def _patient(draw: np.random.Generator) -> tuple[str, ...]:
    age, oxygen = int(draw.integers(18, 96)), round(float(draw.uniform(86, 100)), 1)
    smoker, admissions = draw.random() < 0.3, int(draw.integers(0, 9))
    score = (age - 57) / 12 - (oxygen - 93) / 2 + (admissions - 4) / 2 + 1.5 * (smoker - 0.3)
    ill = draw.random() < 1 / (1 + np.exp(-2 * score))
    return str(age), "yes" if smoker else "no", str(oxygen), str(admissions), "yes" if ill else "no"


if __name__ == "__main__":
    try:
        for written in main(Path(sys.argv[1] if len(sys.argv) > 1 else ".")):
            print(written)
    except OSError as error:
        sys.exit(str(error))
