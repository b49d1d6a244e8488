"""voile: explanations of machine-learning models that are safe to publish.

A tour, by what you want to do:

- explain a model over the rows you have, as with shap; with `protect=`, safely: `Explainer`
- train on rows that must be protected, then predict and explain for ever:
  `PrivateClassifier`, `PrivateRegressor`
- train one model across parties, in this process for a trial: `federate`
- say what may be spent on a version of the data, and keep count: `Budget`
- describe your columns in public, before anybody looks at the data: `Schema`
- find out which features matter in a protected population: `importance`
- look at an explanation and at what is promised about it: `Explanation`, `ExplanationView`,
  `Guarantee`
- check that an explanation is the one that was paid for and recorded: `verify`
- go on with what the command line began: `open_workspace`
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

    from voile import plots
    from voile.app.notebook import open_workspace
    from voile.core.errors import VoileError
    from voile.core.explanation import Explanation
    from voile.core.guarantee import Guarantee
    from voile.core.schema import Schema
    from voile.python.budget import Budget
    from voile.python.client import AsyncClient, Client
    from voile.python.estimators import PrivateClassifier, PrivateRegressor
    from voile.python.explainer import Explainer
    from voile.python.federation import federate
    from voile.python.importance import importance
    from voile.python.verify import verify
    from voile.python.view import ExplanationView

__all__ = [
    "AsyncClient",
    "Budget",
    "Client",
    "Explainer",
    "Explanation",
    "ExplanationView",
    "Guarantee",
    "PrivateClassifier",
    "PrivateRegressor",
    "Schema",
    "VoileError",
    "__version__",
    "federate",
    "importance",
    "open_workspace",
    "plots",
    "verify",
]

_HOME = {
    "AsyncClient": "voile.python.client",
    "Budget": "voile.python.budget",
    "Client": "voile.python.client",
    "Explainer": "voile.python.explainer",
    "Explanation": "voile.core.explanation",
    "ExplanationView": "voile.python.view",
    "Guarantee": "voile.core.guarantee",
    "PrivateClassifier": "voile.python.estimators",
    "PrivateRegressor": "voile.python.estimators",
    "Schema": "voile.core.schema",
    "VoileError": "voile.core.errors",
    "federate": "voile.python.federation",
    "importance": "voile.python.importance",
    "open_workspace": "voile.app.notebook",
    "verify": "voile.python.verify",
}

_FORMER = {
    "Adversary": "voile.core.guarantee",
    "ExplanationSpec": "voile.app.explain",
    "Protected": "voile.core.guarantee",
    "ProtectedUnit": "voile.core.guarantee",
    "Relation": "voile.core.guarantee",
    "start_workspace": "voile.app.workspace",
}
"""Former names: they still work for one version, and are found in their packages."""


for _kind, _view in {
    "asset of the dashboard": "voile.views.assets:asset_bytes",
    "budget page": "voile.views.pages:budget_html",
    "budget": "voile.views.pages:budget_status_html",
    "cited records": "voile.views.evidence:records_html",
    "decision page": "voile.views.evidence:decision_html",
    "evidence": "voile.views.evidence:evidence_html",
    "evidence document": "voile.views.evidence:document_html",
    "dashboard page": "voile.views.dashboard:page_html",
    "exact trust": "voile.views.reports:trust_html",
    "explanation": "voile.views.pages:explanation_html",
    "explanation in Python": "voile.views.pages:view_html",
    "model card": "voile.views.evidence:model_card",
    "model report": "voile.views.reports:model_report_html",
    "person page": "voile.views.pages:person_html",
    "picture of released explanation": "voile.views.pages:explained_picture",
    "picture of trained model": "voile.views.pages:model_picture",
    "promise in words": "voile.views.text:in_words",
    "recommendation page": "voile.views.pages:recommendation_html",
    "released explanation": "voile.views.pages:released_html",
    "report": "voile.views.reports:report_html",
    "schema from public rows": "voile.python.schemas:draft_schema",
}.items():
    _rendering.register(_kind, _view)


def __getattr__(name: str) -> Any:
    if name == "plots":
        return import_module("voile.plots")
    home = _HOME.get(name) or _FORMER.get(name)
    if home is None:
        raise AttributeError(f"module 'voile' has no attribute {name!r}")
    return getattr(import_module(home), name)


def __dir__() -> list[str]:
    return sorted(__all__)
