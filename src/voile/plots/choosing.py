"""One of several outputs."""

from __future__ import annotations

from voile.core.description import Description, OutputDescription
from voile.core.errors import InvalidInput


def one_output(described: Description) -> OutputDescription:
    """The only one."""
    if len(described.outputs) > 1:
        names = ", ".join(each.name for each in described.outputs)
        raise InvalidInput(f"choose one output: {names} (output=...)")
    return described.outputs[0]
