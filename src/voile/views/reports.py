"""Reports as one page: of an artefact, of a trained model, or of trust without a promise."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from voile.views import plots
from voile.views.html import picture, render
from voile.views.text import STUDIED, judged

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from voile.app.report import ExactTrust, ReportContents
    from voile.app.trained_report import ModelReportContents
    from voile.models.additive import AdditiveModel

CURVES: Final = "what the model says about each feature"
_SCORES: Final = ("accuracy", "divergence", "trust", "weight")


def report_html(report: ReportContents) -> str:
    """What an artefact promises, how good it is, and how to verify it."""
    return render(
        "report.html",
        report=report,
        pictures=_pictures(report),
        studied=STUDIED,
        **_trust_values(report.trust),
    )


def model_report_html(report: ModelReportContents) -> str:
    """The curves of a trained model, how good it is, what it promises and what it cost."""
    trained = report.trained
    figures = [
        {"linear_model": None, **each, "what": f"{name} ({words})"}
        for words, found in judged(trained.quality)
        for name, each in found["figures"].items()
    ]
    drawn = _curves(trained.additive)
    return render(
        "model_report.html",
        report=report,
        curves="" if drawn is None else picture(drawn, CURVES),
        figures=figures,
        linear=any(each["linear_model"] is not None for each in figures),
        charges=list(zip(trained.releases, trained.charges, trained.events, strict=True)),
    )


def _curves(model: AdditiveModel | None) -> Figure | None:
    """None where there is nothing to draw."""
    return plots.curves(model) if model is not None and model.bins else None


def trust_html(trust: ExactTrust) -> str:
    """Trust, divergence and rewards of each party, without a promise."""
    values = _trust_values(trust.figures, exact=True)
    return render("trust.html", name=trust.name, notes=trust.notes, **values)


def _pictures(report: ReportContents) -> dict[str, str]:
    promised, bins = report.promised, report.calibration_bins
    curves, important = report.curves, report.importance
    drawn = {
        "features": _curves(report.additive),
        "calibration": plots.calibration(bins) if bins else None,
        "learning": plots.learning(curves, measured_on="unprotected rows") if curves else None,
        "importance": plots.bar(important, schema=report.schema) if important else None,
        "budgets": plots.budgets(
            report.spent, promised=promised["epsilon"], delta=promised["delta"]
        ),
        "rounds": plots.rounds(report.outcomes),
    }
    said = {
        "features": CURVES,
        "calibration": "how often predictions come true",
        "learning": "figures by round",
        "importance": "importance of features",
        "budgets": "spent by client",
        "rounds": "who took part in which round",
    }
    return {
        name: "" if figure is None else picture(figure, said[name])
        for name, figure in drawn.items()
    }


def _trust_values(trust: Mapping[str, Any], *, exact: bool = False) -> dict[str, Any]:
    """What `trust_section.html` takes.

    Args:
        exact: whether accuracy and divergence are covered by no promise.
    """
    if not trust:
        return {"trust": trust}
    scored = [(name, scores) for name, scores in trust["parties"].items() if scores]
    return {
        "trust": trust,
        "exact": exact,
        "trust_picture": _trust_picture(trust) if scored else "",
        "shown_scores": _SCORES,
        "parties": sorted(scored, key=lambda party: -party[1][-1]["trust"]),
    }


def _trust_picture(trust: Mapping[str, Any]) -> str:
    stands_out = trust["outliers"] + trust["drifts"]
    odd = sorted(
        name
        for name in trust["parties"]
        if any(line.startswith(f"{name} in round ") for line in stands_out)
    )
    drawn = plots.trust(trust["parties"], measure=str(trust["rule"]["divergence"]), odd=odd)
    return picture(drawn, "trust, divergence and rewards of each party over rounds")
