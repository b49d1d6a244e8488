"""Where a workspace's database is: a file, a server, or what an environment variable says.

A workspace is shown around and kept under version control, so no password stands in it.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final
from urllib.parse import unquote

from voile.core.errors import InvalidInput
from voile.records.storage.opening import file_of

ENVIRONMENT: Final = "env:"
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# As libpq reads an address: whatever stands before the first @ or / is who connects.
_PASSWORD_OF_USER: Final = re.compile(r"[^:/]+://[^:@/]*:[^@/]+@")
_PARAMETER: Final = re.compile(r"([^?&=\s]+)\s*=")
_SECRET_PARAMETER: Final = re.compile(r"password|secret|scram", re.IGNORECASE)


def check_address(storage: str) -> str:
    """Refuse what names no database, and what holds a secret; the text itself is never repeated."""
    if storage.startswith(ENVIRONMENT):
        if not _VARIABLE.fullmatch(storage.removeprefix(ENVIRONMENT)):
            raise InvalidInput(f"expected {ENVIRONMENT}VARIABLE, the name of a variable")
        return storage
    if _holds_secret(storage):
        raise InvalidInput(
            "a password does not belong into this file: write storage = "
            f'"{ENVIRONMENT}VOILE_DATABASE" and put the address into that environment variable, or '
            "leave the password to a passfile (PGPASSFILE, ~/.pgpass)"
        )
    if storage == "memory:":
        raise InvalidInput("a database in memory is gone when the command ends; name a file")
    file_of(storage)
    return storage


def address(storage: str, folder: Path) -> str:
    """What to open: a file relative to `folder`, or the address of a server."""
    if storage.startswith(ENVIRONMENT):
        variable = storage.removeprefix(ENVIRONMENT)
        storage = os.environ.get(variable, "")
        if not storage:
            raise InvalidInput(
                f"the environment variable {variable} is not set; it holds the database's address"
            )
    path = file_of(storage)
    if path is None:
        return storage
    found = str(folder / path)
    return f"sqlite:{found}" if ":" in found else found  # what stands before a colon is no scheme


def _holds_secret(storage: str) -> bool:
    names = (unquote(found) for found in _PARAMETER.findall(storage))
    return bool(_PASSWORD_OF_USER.match(storage)) or any(map(_SECRET_PARAMETER.search, names))
