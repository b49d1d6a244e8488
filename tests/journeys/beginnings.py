"""What readers have before they begin: small invented files of their own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

import numpy as np

ROWS: Final = 400
HEADER: Final = ("age", "smoker", "oxygen", "admissions", "readmitted")


def clinics(folder: Path) -> None:
    """Two clinics of 400 patients, 300 patients of a third one that may be seen, three people."""
    draw = np.random.default_rng(8)
    for name, rows in (("north", ROWS), ("south", ROWS), ("held-out", 300)):
        _write(folder / f"{name}.csv", [HEADER, *(_patient(draw) for _ in range(rows))])
    people = [("71", "yes", "90.5", "4"), ("35", "no", "98.0", "0"), ("64", "", "95.1", "2")]
    _write(folder / "people.csv", [HEADER[:-1], *people])


def nothing(folder: Path) -> None:
    """An empty folder."""


def _patient(draw: np.random.Generator) -> tuple[str, ...]:
    age, oxygen = int(draw.integers(18, 96)), round(float(draw.uniform(86, 100)), 1)
    smoker, admissions = draw.random() < 0.3, int(draw.integers(0, 9))
    score = (age - 57) / 12 - (oxygen - 93) / 2 + (admissions - 4) / 2 + 1.5 * (smoker - 0.3)
    ill = draw.random() < 1 / (1 + np.exp(-2 * score))
    return str(age), "yes" if smoker else "no", str(oxygen), str(admissions), "yes" if ill else "no"


def _write(path: Path, lines: Sequence[Sequence[str]]) -> None:
    path.write_text("".join(",".join(line) + "\n" for line in lines), encoding="utf-8")


BEGINNINGS: Final[Mapping[str, Callable[[Path], None]]] = {"clinics": clinics, "nothing": nothing}
