"""Explanations with a guarantee, from what somebody asks for to the proof.

A tour, in the order of the walk:

- say what you want: `ExplanationSpec` (options, TOML or JSON), `Protect`
- read what it names: `load_inputs`, `ExplanationInputs`; or hand in loaded objects
- get the release that keeps the promise: `build_release`
- have it answered, charged, recorded and proved: `Explainer`, `Explained`
- pay once for an artefact: `paid_synthetic_background`, `paid_clusters`
"""

from voile.workflows.explain.building import build_release
from voile.workflows.explain.explainer import NOTHING_TO_CHARGE, Explained, Explainer, OnRecord
from voile.workflows.explain.inputs import ExplanationInputs, load_inputs
from voile.workflows.explain.paid_artefacts import paid_clusters, paid_synthetic_background
from voile.workflows.explain.specification import ExplanationSpec, Protect

__all__ = [
    "NOTHING_TO_CHARGE",
    "Explained",
    "Explainer",
    "ExplanationInputs",
    "ExplanationSpec",
    "OnRecord",
    "Protect",
    "build_release",
    "load_inputs",
    "paid_clusters",
    "paid_synthetic_background",
]
