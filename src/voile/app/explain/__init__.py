"""Explanations with a guarantee, from what somebody asks for to the proof.

A tour, in the order of the walk:

- say what you want: `ExplanationSpec` (options, TOML or JSON)
- read what it names: `load_inputs`, `ExplanationInputs`; or hand in loaded objects
- get the release that keeps the promise: `build_release`
- have it answered, charged, recorded and proved: `ReleaseService`, for rows with names and notes
  (`RowsToExplain`) or for strangers together (`ExplanationRequest`); what leaves is
  `ReleasedExplanation`
- pay once for an artefact: `paid_synthetic_background`, `paid_clusters`, by
  `ReleaseService.obtain`; for anything else that is bytes in the end: `Request`, `NoisyAnswer`,
  `ReleaseService.answer_request`
"""

from voile.app.commands.explain import ExplanationSpec
from voile.app.explain.artefacts import paid_clusters, paid_synthetic_background
from voile.app.explain.building import build_release
from voile.app.explain.charging import Answer, NoisyAnswer, Request
from voile.app.explain.inputs import ExplanationInputs, load_inputs
from voile.app.explain.questions import ExplanationRequest
from voile.app.explain.released import LoggedAnswer, ReleasedExplanation
from voile.app.explain.rows import RowsToExplain
from voile.app.explain.service import ReleaseService

__all__ = [
    "Answer",
    "ExplanationInputs",
    "ExplanationRequest",
    "ExplanationSpec",
    "LoggedAnswer",
    "NoisyAnswer",
    "ReleaseService",
    "ReleasedExplanation",
    "Request",
    "RowsToExplain",
    "build_release",
    "load_inputs",
    "paid_clusters",
    "paid_synthetic_background",
]
