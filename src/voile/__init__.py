"""voile: explanations of machine-learning models that are safe to publish.

A tour, by what you want to do:

- look at an explanation and at what is promised about it: `Explanation`, `Guarantee`,
  `Protected`, `ProtectedUnit`, `Relation`, `Adversary`
- begin a workspace with a trained model, and explain rows in it: `start_workspace` (takes an
  `ExplanationSpec`), `open_workspace`
- describe your columns in public, before anybody looks at the data: `Schema`
- draw it: `voile.plots`
- ask a service for explanations: `Client`, `AsyncClient`
- catch what goes wrong: `VoileError` and the tree below it in `voile.core.errors`

Names are loaded when they are first used, so that `import voile` stays quick.
"""

from __future__ import annotations

from importlib import import_module

from voile._version import __version__
from voile.core import rendering as _rendering

TYPE_CHECKING = False  # `typing` takes as long as Python itself: Ctrl-C would be caught too late
if TYPE_CHECKING:
    from typing import Any

    from voile.app.explain import ExplanationSpec
    from voile.app.notebook import open_workspace
    from voile.app.workspace import start_workspace
    from voile.core.errors import VoileError
    from voile.core.explanation import Explanation
    from voile.core.guarantee import Adversary, Guarantee, Protected, ProtectedUnit, Relation
    from voile.core.schema import Schema
    from voile.python.client import AsyncClient, Client

__all__ = [
    "Adversary",
    "AsyncClient",
    "Client",
    "Explanation",
    "ExplanationSpec",
    "Guarantee",
    "Protected",
    "ProtectedUnit",
    "Relation",
    "Schema",
    "VoileError",
    "__version__",
    "open_workspace",
    "start_workspace",
]

_HOME = {
    "Adversary": "voile.core.guarantee",
    "AsyncClient": "voile.python.client",
    "Client": "voile.python.client",
    "Explanation": "voile.core.explanation",
    "ExplanationSpec": "voile.app.explain",
    "Guarantee": "voile.core.guarantee",
    "Protected": "voile.core.guarantee",
    "ProtectedUnit": "voile.core.guarantee",
    "Relation": "voile.core.guarantee",
    "Schema": "voile.core.schema",
    "VoileError": "voile.core.errors",
    "open_workspace": "voile.app.notebook",
    "start_workspace": "voile.app.workspace",
}


for _kind, _view in {
    "budget page": "voile.views.pages:budget_html",
    "exact trust": "voile.views.reports:trust_html",
    "explanation": "voile.views.pages:explanation_html",
    "model report": "voile.views.reports:model_report_html",
    "person page": "voile.views.pages:person_html",
    "picture of released explanation": "voile.views.pages:explained_picture",
    "picture of trained model": "voile.views.pages:model_picture",
    "recommendation page": "voile.views.pages:recommendation_html",
    "released explanation": "voile.views.pages:released_html",
    "report": "voile.views.reports:report_html",
}.items():
    _rendering.register(_kind, _view)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'voile' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
