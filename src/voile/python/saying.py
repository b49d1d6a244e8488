"""How the Python door speaks: one line, where the reader of a notebook or of a program sees it."""

from __future__ import annotations

import sys


def say(line: str) -> None:
    """Tell people something. In a notebook it is output; in a program it never mixes with it."""
    print(line, file=sys.stdout if _is_interactive() else sys.stderr)


def _is_interactive() -> bool:
    return hasattr(sys, "ps1") or "ipykernel" in sys.modules
