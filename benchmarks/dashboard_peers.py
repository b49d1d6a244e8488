"""One model over 100,000 rows: CPU seconds until each dashboard can be looked at.

Peers do not install beside voile, so each is measured by the Python of an environment that has it:

    python benchmarks/dashboard_peers.py voile | explainerdashboard | shapash

prints one line of JSON. Data and settings of the model are the same: a random forest of 50 trees of
depth 6 over ten numbers. What is measured begins with the fitted model and the rows in memory (for
voile: in files, as it is served) and ends when there is something to show: for explainerdashboard
the dashboard object, which computes what its pages need; for shapash the compiled explainer; for
voile the page of the model with importance and dependence, as HTML.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.ensemble import RandomForestClassifier

ROWS, FEATURES = 100_000, 10
NAMES = [f"f{n}" for n in range(FEATURES)]


def data() -> tuple[pd.DataFrame, pd.Series]:
    """Invented rows and labels, the same everywhere."""
    draw = np.random.default_rng(0)
    rows = pd.DataFrame(draw.uniform(0, 10, (ROWS, FEATURES)).round(3), columns=NAMES)
    score = rows["f0"] - rows["f1"] + 0.3 * rows["f2"] + draw.normal(0, 2, ROWS)
    return rows, (score > score.median()).astype(int)


def model(rows: pd.DataFrame, labels: pd.Series) -> RandomForestClassifier:
    """The same settings and seed everywhere."""
    made = RandomForestClassifier(n_estimators=50, max_depth=6, random_state=0)
    return made.fit(rows, labels)


def with_explainerdashboard(forest: Any, rows: pd.DataFrame, labels: pd.Series) -> None:
    """Its defaults."""
    from explainerdashboard import ClassifierExplainer, ExplainerDashboard  # type: ignore

    ExplainerDashboard(ClassifierExplainer(forest, rows, labels))


def with_shapash(forest: Any, rows: pd.DataFrame, labels: pd.Series) -> None:
    """Its defaults."""
    from shapash import SmartExplainer  # type: ignore

    explainer = SmartExplainer(model=forest)
    explainer.compile(x=rows, y_target=labels)
    explainer.init_app()


def with_voile(forest: Any, rows: pd.DataFrame, labels: pd.Series) -> None:
    """A workspace over the rows as public background, opened, and the page of its model."""
    from voile.app.dashboard import Dashboard
    from voile.app.dashboard.frame import MODEL, DashboardPage, Frame
    from voile.app.dashboard.models import model_page
    from voile.app.explain import ExplanationSpec
    from voile.app.serving import Caller, open_served
    from voile.app.workspace import start_workspace
    from voile.core.rendering import render_html
    from voile.core.schema import Feature, Numbers, Schema
    from voile.records.access import Duty, Grants

    assert len(labels) == len(rows)
    globals()["FOREST"] = forest
    sys.modules["dashboard_peers"] = sys.modules[__name__]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        schema = Schema("rows", tuple(Feature(each, Numbers(0, 10)) for each in NAMES))
        (folder / "schema.toml").write_text(schema.dumps())
        rows.to_csv(folder / "public.csv", index=False)
        spec = ExplanationSpec.read(
            {
                "model": "dashboard_peers:FOREST",
                "schema": str(folder / "schema.toml"),
                "model_origin": "public",
                "protect": "training",
                "background": str(folder / "public.csv"),
                "background_origin": "public",
            }
        )
        start_workspace(spec, name="forest", folder=folder)
        _begin()
        with open_served(folder) as workspace:
            caller = Caller("x", Grants(caller="x", duties=frozenset(Duty), accounts=("*",)))
            found = model_page(Dashboard(workspace), caller, "forest")
            frame = Frame("x", MODEL.path)
            html = render_html(DashboardPage("model", "forest", frame, found))
            assert "contribution" in html


_STARTED: list[tuple[float, float]] = []


def _begin() -> None:
    _STARTED.append((time.perf_counter(), time.process_time()))


def main() -> None:
    """Measure the one that is named."""
    (which,) = sys.argv[1:]
    rows, labels = data()
    forest = model(rows, labels)
    _begin()
    {
        "voile": with_voile,
        "explainerdashboard": with_explainerdashboard,
        "shapash": with_shapash,
    }[which](forest, rows, labels)
    wall, cpu = _STARTED[-1]
    told = {
        "which": which,
        "rows": ROWS,
        "cpu_seconds": round(time.process_time() - cpu, 1),
        "wall_seconds": round(time.perf_counter() - wall, 1),
    }
    print(json.dumps(told))


if __name__ == "__main__":
    main()
