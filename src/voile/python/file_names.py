"""Names of files as people hand them in."""

from __future__ import annotations

import os
from os import PathLike
from pathlib import Path
from typing import Any

from voile.core.errors import InvalidInput


def file_named(given: Any, what: str) -> Path:
    """The path; `InvalidInput` if it is no name that a file can bear.

    Args:
        what: the argument, for the message.

    >>> file_named("why.voile", "explanation").name
    'why.voile'
    """
    if not isinstance(given, str | PathLike):
        raise InvalidInput(f"{what}: expected the name of a file, found a {type(given).__name__}")
    try:
        path = Path(given)
        os.fsencode(path)
        path.exists()
    except (OSError, TypeError, ValueError) as error:
        raise InvalidInput(f"{what}: {str(given)!r:.80} cannot be a file: {error!s:.80}") from None
    if not path.name:
        raise InvalidInput(f"{what}: expected the name of a file, found {str(given)!r:.80}")
    return path
