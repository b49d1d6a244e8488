"""How long commands take to start, and what one explanation of an artefact costs in all.

`voile --help` and `import voile` stand beside starting Python and doing nothing. One person's
explanation from an artefact (of a small demo, run here first) stands beside a process that
imports every module the command has used, voile's own included, and does nothing with them.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.harness import Figure, alternate, compare, write

MB = 1024
EXPLAIN = ("explain", "readmitted", "patients.csv", "--output", "why.voile", "--yes")
TOLD = """\
import resource, sys
from voile.cli import main
try:
    main(sys.argv[2:])
finally:
    modules = [n for n, m in sys.modules.items() if m is not None and n != "__main__"]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with open(sys.argv[1], "w") as file:
        print(peak, *modules, file=file)
"""
IMPORTED = """\
import sys
from contextlib import suppress
from importlib import import_module
for name in open(sys.argv[1]).read().split():
    with suppress(Exception):  # a few are made by others, and are no files
        import_module(name)
"""


def run() -> None:
    with tempfile.TemporaryDirectory() as folder:
        # Bytecode is kept as after an installation, whatever this machine does otherwise.
        settings = {**os.environ, "PYTHONPYCACHEPREFIX": f"{folder}/bytecode"}
        settings.pop("PYTHONDONTWRITEBYTECODE", None)
        figures = [*starting(settings), *explaining(Path(folder), settings)]
    write("startup", "python -c pass; for an explanation, importing the same modules", figures)


def starting(settings: dict[str, str]) -> list[Figure]:
    shown, imported, nothing = alternate(
        [
            seconds(settings, "-m", "voile.cli", "--help"),
            seconds(settings, "-c", "import voile"),
            seconds(settings, "-c", "pass"),
        ],
        rounds=9,
    )
    return [
        compare("voile --help", "s", shown, nothing),
        Figure("voile --help, in seconds", "s", shown, None, None, "under 0.5", shown < 0.5),
        compare("import voile", "s", imported, nothing),
    ]


def explaining(folder: Path, settings: dict[str, str]) -> list[Figure]:
    """`voile explain` of one person, free of charge and with a receipt."""
    folder, told = folder / "demo", folder / "told.txt"
    seconds(settings, "-m", "voile.cli", "demo", "--rows", "60", "--output", str(folder))()
    command = [sys.executable, "-c", TOLD, str(told), *EXPLAIN]
    _quiet(command, folder, settings)
    peak, *modules = told.read_text(encoding="utf-8").split()
    lists = {"all": modules, "others": [n for n in modules if n.partition(".")[0] != "voile"]}
    for name, chosen in lists.items():
        (folder / f"{name}.txt").write_text(" ".join(chosen), encoding="utf-8")
    ours, same, others = alternate(
        [
            seconds(settings, "-m", "voile.cli", *EXPLAIN, folder=folder),
            seconds(settings, "-c", IMPORTED, "all.txt", folder=folder),
            seconds(settings, "-c", IMPORTED, "others.txt", folder=folder),
        ],
        rounds=9,
    )
    memory, torch = int(peak) / MB, float("torch" in modules)
    return [
        compare("voile explain of one person from an artefact", "s", ours, same, at_most=1.5),
        compare("the same; peer: importing its packages without voile", "s", ours, others),
        Figure("the same: peak memory", "MB", memory, None, None, "at most 400", memory <= 400),
        Figure("the same: torch in memory", "", torch, None, None, "0", torch == 0),
    ]


def seconds(
    settings: dict[str, str], *arguments: str, folder: Path | None = None
) -> Callable[[], float]:
    def run() -> float:
        start = time.perf_counter()
        command = [sys.executable, *arguments]
        _quiet(command, folder, settings)
        return time.perf_counter() - start

    return run


def _quiet(command: list[str], folder: Path | None, settings: dict[str, str]) -> None:
    nothing = subprocess.DEVNULL
    subprocess.run(command, cwd=folder, env=settings, check=True, stdout=nothing, stderr=nothing)
