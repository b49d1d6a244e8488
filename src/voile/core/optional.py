"""One door for every optional package, with the line that installs it in the error."""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib import import_module
from typing import Any, Final

from voile.core.errors import MissingDependency

QUIET: Final[Mapping[str, Mapping[str, str]]] = {
    "onnxruntime": {"ORT_DISABLE_TELEMETRY": "1"},
}
"""What is set before a package is imported, by package: else it reports to whoever made it."""


def optional(module: str, *, extra: str) -> Any:
    """Import `module`, which comes with the extra `extra` (as in `pip install 'voile[extra]'`).

    Only the absence of the package itself is translated; an error inside it is passed on as it is.
    """
    package = module.partition(".")[0]
    os.environ.update(QUIET.get(package, {}))
    try:
        import_module(package)
    except ModuleNotFoundError as error:
        if error.name != package:
            raise
        raise MissingDependency(
            f"this needs the package {package!r}, which is not installed; "
            f"install it with: pip install 'voile[{extra}]'",
            name=package,
        ) from error
    return import_module(module)
