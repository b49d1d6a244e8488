"""How long `voile --help` and `import voile` take, beside starting Python and doing nothing."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable

from benchmarks.harness import Figure, alternate, compare, write


def seconds(*arguments: str) -> Callable[[], float]:
    def run() -> float:
        start = time.perf_counter()
        subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)
        return time.perf_counter() - start

    return run


def run() -> None:
    shown, imported, nothing = alternate(
        [
            seconds("-m", "voile.cli", "--help"),
            seconds("-c", "import voile"),
            seconds("-c", "pass"),
        ],
        rounds=9,
    )
    figures = [
        compare("voile --help", "s", shown, nothing),
        Figure("voile --help, in seconds", "s", shown, None, None, "under 0.5", shown < 0.5),
        compare("import voile", "s", imported, nothing),
    ]
    write("startup", "python -c pass", figures)
