"""One of several outputs."""

from __future__ import annotations

from voile.core.errors import InvalidInput
from voile.core.explanation import Explanation


def one_output(explanation: Explanation, output: str | None) -> Explanation:
    """The one that is named, or the only one."""
    if output is not None:
        return explanation.output(output)
    if explanation.shape[2] > 1:
        raise InvalidInput(f"choose one output: {', '.join(explanation.output_names)} (output=...)")
    return explanation
