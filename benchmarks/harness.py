"""What every benchmark shares: alternate, measure, compare with the target, write it down."""

from __future__ import annotations

import json
import os
import platform
import statistics
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import voile

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "results"


@dataclass(frozen=True)
class Figure:
    """One line of a benchmark: ours, the peer's, and what we promised ourselves.

    Args:
        what: the case.
        ours, peer: the two figures, in `unit`.
        ratio: ours over the peer's.
        target: what the ratio must reach ("at least 0.7"), or None where it is only shown.
        met: whether it did.
    """

    what: str
    unit: str
    ours: float
    peer: float | None
    ratio: float | None
    target: str | None = None
    met: bool | None = None


def alternate(
    runs: Sequence[Callable[[], float]], *, rounds: int = 5, warm_up: int = 1
) -> list[float]:
    """The median of each measurement, taken in turn: a slow moment of the machine hits them all."""
    measured: list[list[float]] = [[] for _ in runs]
    for number in range(warm_up + rounds):
        for place, run in enumerate(runs):
            figure = run()
            if number >= warm_up:
                measured[place].append(figure)
    return [statistics.median(figures) for figures in measured]


def compare(
    what: str,
    unit: str,
    ours: float,
    peer: float,
    *,
    at_least: float | None = None,
    at_most: float | None = None,
) -> Figure:
    """A figure with its ratio and, if there is a target, whether it was met."""
    ratio = ours / peer
    if at_least is not None:
        return Figure(what, unit, ours, peer, ratio, f"at least {at_least:g}", ratio >= at_least)
    if at_most is not None:
        return Figure(what, unit, ours, peer, ratio, f"at most {at_most:g}", ratio <= at_most)
    return Figure(what, unit, ours, peer, ratio)


def write(
    name: str,
    peer: str,
    figures: Sequence[Figure],
    *,
    seed: int | Sequence[int] | str | None = None,
    command: str | None = None,
    data_checksum: str | None = None,
    **besides: object,
) -> Path:
    """Write `results/NAME.json` and print the same figures as a table.

    Args:
        command: how to repeat it, for an experiment; a benchmark is repeated with `make bench`.
        besides: whatever else belongs to the setting.
    """
    RESULTS.mkdir(exist_ok=True)
    content = {
        "name": name,
        "command": command or f"make bench (python -m benchmarks {name})",
        "commit": _commit(),
        "version": voile.__version__,
        "machine": {"cpus": _cpus(), "python": platform.python_version()},
        "seed": seed,
        "data_checksum": data_checksum,
        **besides,
        "peer": peer,
        "figures": [asdict(figure) for figure in figures],
        "targets_met": all(figure.met is not False for figure in figures),
    }
    path = RESULTS / f"{name}.json"
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    for figure in figures:
        print(_line(figure))
    return path


def _line(figure: Figure) -> str:
    peer = "" if figure.peer is None else f"  peer {figure.peer:>12,.4g}"
    ratio = "" if figure.ratio is None else f"  ratio {figure.ratio:6.2f}"
    verdict = {True: "met", False: "MISSED", None: ""}[figure.met]
    target = "" if figure.target is None else f"  ({figure.target}: {verdict})"
    return f"{figure.what:<52} {figure.ours:>12,.4g} {figure.unit}{peer}{ratio}{target}"


def _commit() -> str:
    found = subprocess.run(
        ["git", "describe", "--always", "--dirty", "--exclude=*"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    return found.stdout.strip() or "unknown"


def _cpus() -> int:
    return len(os.sched_getaffinity(0))
