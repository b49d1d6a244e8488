"""Runs that are kept under what they depend on: a command that is broken off goes on."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from experiments.fedsva.published import Trained
from voile.core.atomic_file import replace_file


@dataclass(frozen=True)
class Kept:
    """One file for each run."""

    folder: Path

    def run(self, name: str, facts: Any, make: Callable[[], Any]) -> Any:
        """What is kept under this name and these facts, or what is made now, as plain values."""
        named = json.dumps([name, facts], sort_keys=True)
        path = self.folder / f"{hashlib.sha256(named.encode()).hexdigest()[:24]}.json"
        if not path.exists():
            self.folder.mkdir(parents=True, exist_ok=True)
            replace_file(path, json.dumps({"of": named, "found": make()}).encode())
            print(named, flush=True)
        return json.loads(path.read_text(encoding="utf-8"))["found"]

    def trained(
        self, name: str, facts: list[Any], seeds: Sequence[int], make: Callable[[int], Trained]
    ) -> list[Trained]:
        """One run for each seed."""
        found = []
        for seed in seeds:

            def plain(seed: int = seed) -> dict[str, Any]:
                return asdict(make(seed))

            found.append(Trained(**self.run(name, [*facts, seed], plain)))
        return found
