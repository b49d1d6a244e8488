"""Explanations, recommendations and budgets as HTML."""

from __future__ import annotations

from collections.abc import Mapping
from io import BytesIO
from typing import TYPE_CHECKING, Any, Final, Protocol

from voile.core.description import Describable
from voile.core.explanation import Explanation
from voile.records.ledger import THRESHOLDS, BudgetReport
from voile.views import plots
from voile.views.html import render
from voile.views.text import in_words, reasons, several_records, summary, two_readings

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from voile.app.budget.status import BudgetStatus
    from voile.app.budgets import BudgetPage
    from voile.app.explain.outputs import PersonPage
    from voile.app.explain.released import ReleasedExplanation
    from voile.app.recommend.handler import RecommendationPage
    from voile.app.trained_model import TrainedModel

_MOST_ROWS: Final = 5
"""In a notebook."""
_MOST_FEATURES: Final = 12
_WIDTH: Final = 640
_HEIGHT: Final = 220
_MARGIN: Final = 40


# --- explanations ---------------------------------------------------------------------------------


def explanation_html(explanation: Explanation) -> str:
    """For notebooks: alarms and promises first, then the rows, as far as they are few."""
    return _notebook(explanation, len(explanation))


def released_html(explained: ReleasedExplanation) -> str:
    """The same, with what it cost."""
    return _notebook(explained, len(explained.explanation), explained.payment)


class PythonExplanation(Describable, Protocol):
    """What explainers return in Python."""

    @property
    def released(self) -> ReleasedExplanation | None: ...


def view_html(view: PythonExplanation) -> str:
    """For notebooks: alarms and promises first, then one picture, of one row or of all together."""
    whole = view.describe(most=_MOST_FEATURES)
    payment = "" if view.released is None else view.released.payment
    return render(
        "notebook.html", alarms=whole.alarms, whole=whole, rows=[whole], more=0, payment=payment
    )


def _notebook(explanation: Describable, rows: int, payment: str = "") -> str:
    whole = explanation.describe()
    shown = [explanation.describe(row) for row in range(min(rows, _MOST_ROWS))]
    return render(
        "notebook.html",
        alarms=whole.alarms,
        whole=whole,
        rows=shown,
        more=rows - len(shown),
        payment=payment,
    )


def person_html(page: PersonPage) -> str:
    """Why this result, what is promised, how to check it, what it does not say.

    It holds what is in the explanation, and nothing more: no value of the explained row and no
    prediction where that row is what is protected.
    """
    described = page.explained.describe(0)
    return render(
        "person.html",
        described=described,
        alarms=described.alarms,
        assessed=page.explained.assessed,
        payment=page.explained.payment,
        command=page.command,
        receipt=page.receipt,
    )


def recommendation_html(page: RecommendationPage) -> str:
    """What is recommended to one user, why, and what is promised about it."""
    given = page.explanation
    lines = [(name, reasons(given, output)) for output, name in enumerate(given.output_names)]
    return render("recommendation.html", described=given.describe(), lines=lines)


def explained_picture(explained: ReleasedExplanation, ending: str) -> bytes:
    """One prediction is drawn from its base value on; anything else as bars."""
    (output, *others) = explained.describe().outputs
    leads = output.prediction is not None and not others
    return _as_bytes(plots.waterfall(explained) if leads else plots.bar(explained), ending)


def model_picture(trained: TrainedModel, ending: str) -> bytes:
    """The curve of each feature."""
    return _as_bytes(plots.curves(trained.additive), ending)


def _as_bytes(figure: Figure, ending: str) -> bytes:
    picture = BytesIO()
    figure.savefig(picture, format=ending, dpi=150)
    return picture.getvalue()


# --- budgets --------------------------------------------------------------------------------------


def budget_html(page: BudgetPage) -> str:
    """What is promised, used and left of a budget, with the curve of consumption."""
    report, protected = page.report, page.report.protected
    return render(
        "budget.html",
        report=report,
        words=in_words(protected, report.epsilon, report.delta),
        several=several_records(protected, report.epsilon, report.delta, page.records_per_person),
        rows=summary(report),
        both=two_readings(report),
        curve={
            "width": _WIDTH,
            "height": _HEIGHT,
            "left": _MARGIN,
            "right": _WIDTH - _MARGIN,
            "bottom": _HEIGHT - _MARGIN,
            "levels": [(each, _y(each / 100)) for each in (0, *THRESHOLDS, 100)],
            "points": _polyline(report),
        },
    )


def budget_status_html(status: BudgetStatus) -> str:
    """For notebooks: what is used and left, as a bar."""
    words = in_words(status.protected, status.epsilon, status.delta)
    return render("budget_status.html", status=status, words=words)


def _polyline(report: BudgetReport) -> str:
    """A staircase: a share stays until the next act."""
    first = report.curve[0].time
    span = max(report.time - first, 1e-9)
    places: list[str] = []
    height = _y(report.curve[0].share)
    for point in report.curve:
        x = _MARGIN + (_WIDTH - 2 * _MARGIN) * min(1.0, (point.time - first) / span)
        places += [f"{x:.1f},{height:.1f}", f"{x:.1f},{_y(point.share):.1f}"]
        height = _y(point.share)
    return " ".join([*places, f"{_WIDTH - _MARGIN:.1f},{height:.1f}"])


def _y(share: float) -> float:
    return _HEIGHT - _MARGIN - (_HEIGHT - 2 * _MARGIN) * share


def interface_html(described: Mapping[str, Any]) -> str:
    """The operations of a service, from its description (OpenAPI), as a page without scripts."""
    operations = [
        (method.upper(), path, said.get("description", ""))
        for path, methods in described["paths"].items()
        for method, said in methods.items()
    ]
    return render("interface.html", title=described["info"]["title"], operations=operations)
