"""Commands in a process in which torch cannot be imported, and what they loaded besides."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ABSENT: Final = ("torch", "opacus", "captum")
_SCRIPT: Final = """\
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name in {absent!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Absent())
from voile.cli import main
try:
    main(sys.argv[2:])
finally:
    with open(sys.argv[1], "w") as file:
        print(*sys.modules, file=file)
"""


@dataclass(frozen=True)
class Ran:
    """What a command said, and the packages in memory at its end."""

    stdout: str
    stderr: str
    loaded: frozenset[str]


def voile(*words: str | Path, folder: Path, timeout: float = 300) -> Ran:
    """Run `voile` in a folder that exists; an exit code other than 0 is an error."""
    seen = folder / "loaded.txt"
    run = subprocess.run(
        [sys.executable, "-c", _SCRIPT.format(absent=ABSENT), str(seen), *map(str, words)],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    assert run.returncode == 0, (words, run.stdout, run.stderr)
    loaded = frozenset(name.partition(".")[0] for name in seen.read_text().split())
    seen.unlink()
    assert loaded.isdisjoint(ABSENT)
    return Ran(run.stdout, run.stderr, loaded)
