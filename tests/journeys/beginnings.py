"""What readers have before they begin: an empty folder, or the files that an example writes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from examples import clinics as clinic_files


def clinics(folder: Path) -> None:
    """Two clinics of 400 patients, 300 patients of a third one that may be seen, three people."""
    clinic_files.main(folder)


def nothing(folder: Path) -> None:
    """An empty folder."""


BEGINNINGS: Final[Mapping[str, Callable[[Path], None]]] = {"clinics": clinics, "nothing": nothing}
