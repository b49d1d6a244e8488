"""Runs that are kept under what they depend on: a command that is broken off goes on."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from experiments.fedxchain.setting import Case, Outcome
from voile.core.atomic_file import replace_file


@dataclass(frozen=True)
class Kept:
    """One file for each run."""

    folder: Path

    def run(self, case: Case, way: str, make: Callable[[Case], Outcome]) -> Outcome:
        """The run that is kept under case and way, or a new one."""
        named = json.dumps({**asdict(case), "way": way}, sort_keys=True)
        path = self.folder / f"{hashlib.sha256(named.encode()).hexdigest()[:24]}.json"
        if path.exists():
            return _read(json.loads(path.read_text(encoding="utf-8"))["outcome"])
        found = make(case)
        self.folder.mkdir(parents=True, exist_ok=True)
        text = json.dumps({"case": named, "outcome": asdict(found)})
        replace_file(path, text.encode())
        print(f"{way}: {case}: {found.final:.3f}", flush=True)
        return _read(json.loads(text)["outcome"])


def _read(plain: dict[str, Any]) -> Outcome:
    lists: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in plain.items()
    }
    lists["rewards"] = tuple((a, b) for a, b in lists["rewards"])
    return Outcome(**lists)
