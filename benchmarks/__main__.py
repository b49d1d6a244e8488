"""Run all benchmarks, or those named on the command line."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

NOT_BENCHMARKS = {"__init__", "__main__", "attack_peers", "dashboard_peers", "harness"}


def main() -> int:
    known = sorted(path.stem for path in Path(__file__).parent.glob("*.py"))
    known = [name for name in known if name not in NOT_BENCHMARKS]
    chosen = sys.argv[1:] or known
    unknown = sorted(set(chosen) - set(known))
    if unknown:
        print(f"no benchmark is called {', '.join(unknown)}; known: {', '.join(known)}")
        return 2
    for name in chosen:
        print(f"\n{name}")
        import_module(f"benchmarks.{name}").run()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
