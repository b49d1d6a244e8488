"""Pages and parts of them, straight from what they are about."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from voile.app.artefact import Artefact
from voile.app.budgets import BudgetPage
from voile.app.report import exact_trust, report_contents
from voile.core.description import Description
from voile.pipelines.trusted_averaging import TrustedModel
from voile.records.ledger import BudgetReport
from voile.views import pages, reports
from voile.views.html import environment, render


def report_html(artefact: Artefact) -> str:
    return reports.report_html(report_contents(artefact))


def exact_trust_html(trained: TrustedModel, name: str) -> str:
    return reports.trust_html(exact_trust(trained, name))


def trust_section(figures: Mapping[str, Any]) -> str:
    return render("trust_section.html", **reports._trust_values(figures))


def budget_html(report: BudgetReport, records_per_person: int | None = None) -> str:
    return pages.budget_html(BudgetPage(report, records_per_person))


def row_html(described: Description) -> str:
    return render("row.html", described=described)


def promises_html(described: Description) -> str:
    return render("promises.html", described=described)


def framed(title: str, body: str) -> str:
    """A whole page around a part."""
    layout = '{% extends "base.html" %}{% block body %}{{ body }}{% endblock %}'
    return environment().from_string(layout).render(title=title, body=body)
