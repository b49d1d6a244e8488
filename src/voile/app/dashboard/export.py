"""`voile dashboard export`: the pages as files, made by the same handlers and templates."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from voile.app.calls import Context
from voile.app.commands.dashboard import ExportDashboard
from voile.app.dashboard.budgets import account_page, budget_tree
from voile.app.dashboard.dashboard import Dashboard
from voile.app.dashboard.explaining import askable
from voile.app.dashboard.federations import federation_page
from voile.app.dashboard.frame import (
    BUDGETS,
    FEDERATION,
    MODEL,
    OVERVIEW,
    RECORDS,
    DashboardPage,
    Frame,
    Place,
    places_of,
)
from voile.app.dashboard.models import model_page
from voile.app.dashboard.overview import overview
from voile.app.dashboard.records import search_records, show_record
from voile.app.serving import Caller, open_served
from voile.core.atomic_file import replace_file
from voile.core.choices import member
from voile.core.errors import InvalidInput
from voile.core.rendering import find_view, render_html
from voile.records.access import ANY_ACCOUNT, Duty, Grants

ASSET: Final = "asset of the dashboard"
"""The kind of view that gives the files which pages load."""
_ASSETS: Final = ("voile.css", "icon.svg")
_STATIC: Final = "static"
_VERIFIER: Final = "check-receipt.html"


@dataclass(frozen=True)
class ExportResult:
    """What was written.

    Args:
        pages: how many.
    """

    folder: Path
    pages: int


@dataclass(frozen=True)
class PageToWrite:
    """A page that is to be written, and what finds its content."""

    path: str
    file: str
    name: str
    title: str
    place: Place
    find: Callable[[], Any]


def export(command: ExportDashboard, context: Context) -> ExportResult:
    """Write all pages that these duties open."""
    folder, caller = command.folder, _caller(command)
    if os.path.lexists(folder):
        raise InvalidInput(f"{folder}: exists already; name a new folder")
    with open_served(command.workspace) as workspace:
        dashboard = Dashboard(workspace)
        dashboard.read_log(pause=0)
        pages = list(_pages(dashboard, caller))
        files = {page.path: page.file for page in pages}
        folder.mkdir(parents=True, mode=0o700)
        (folder / _STATIC).mkdir()
        for name in (*_ASSETS, _VERIFIER):
            replace_file(
                folder / (_VERIFIER if name == _VERIFIER else f"{_STATIC}/{name}"), _asset(name)
            )
        for number, page in enumerate(pages, start=1):
            frame = Frame("", page.place.path, places_of(caller), exported=files)
            shown = DashboardPage(page.name, page.title, frame, page.find())
            replace_file(folder / page.file, render_html(shown).encode())
            if context.steps is not None:
                context.steps(number, len(pages))
    return ExportResult(folder, len(pages))


def _caller(command: ExportDashboard) -> Caller:
    duties = frozenset(member(Duty, each) for each in command.duties)
    return Caller("export", Grants(caller="export", duties=duties, accounts=(ANY_ACCOUNT,)))


def _asset(name: str) -> bytes:
    view = find_view(ASSET)
    assert view is not None, "the views of voile are registered"
    found: bytes = view(name)
    return found


def _pages(dashboard: Dashboard, caller: Caller) -> Iterator[PageToWrite]:
    places = places_of(caller)
    if OVERVIEW in places:
        yield PageToWrite(
            "/", "index.html", "overview", OVERVIEW.title, OVERVIEW,
            lambda: overview(dashboard, caller),
        )  # fmt: skip
        yield from _budgets(dashboard, caller)
        yield PageToWrite(
            FEDERATION.path, "federation.html", "federation", FEDERATION.title, FEDERATION,
            lambda: federation_page(dashboard),
        )  # fmt: skip
    if RECORDS in places:
        yield from _records(dashboard)
    if MODEL in places:
        yield from _models(dashboard, caller)


def _budgets(dashboard: Dashboard, caller: Caller) -> Iterator[PageToWrite]:
    tree = budget_tree(dashboard, caller)
    yield PageToWrite(BUDGETS.path, "budgets.html", "budgets", BUDGETS.title, BUDGETS, lambda: tree)
    for line in tree.lines:
        name, public = line.share.account.name, line.public
        yield PageToWrite(
            f"/budgets/{public}", f"budget-{public}.html", "account", name, BUDGETS,
            lambda public=public: account_page(dashboard, caller, public),  # type: ignore[misc]
        )  # fmt: skip


def _records(dashboard: Dashboard) -> Iterator[PageToWrite]:
    found = search_records(dashboard, "")
    yield PageToWrite(
        RECORDS.path, "records.html", "records", RECORDS.title, RECORDS, lambda: found
    )
    for line in found.lines:
        number = line.number
        yield PageToWrite(
            f"/records/{number}", f"record-{number}.html", "record", f"Record {number}", RECORDS,
            lambda number=number: show_record(dashboard, number),  # type: ignore[misc]
        )  # fmt: skip


def _models(dashboard: Dashboard, caller: Caller) -> Iterator[PageToWrite]:
    found = askable(dashboard, caller)
    yield PageToWrite(MODEL.path, "models.html", "releases", "Models", MODEL, lambda: found)
    for number, each in enumerate(found, start=1):
        name = each.name
        yield PageToWrite(
            f"/model/{name}", f"model-{number}.html", "model", f"The model of {name}", MODEL,
            lambda name=name: model_page(dashboard, caller, name),  # type: ignore[misc]
        )  # fmt: skip
