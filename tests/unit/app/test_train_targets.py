"""`voile train` for several classes and for numbers: trained, judged and explained."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.unit.app.training_examples import DELTA, asked, table, write_csv, write_people
from tests.unit.release.statistics.examples import SCHEMA, people

from voile.app.assess.subjects import find_subject
from voile.app.calls import handle
from voile.app.commands.budget import OpenBudget
from voile.app.commands.explain import Explain
from voile.app.commands.federate import WriteReport
from voile.app.trained_model import load_trained_model
from voile.core.errors import InvalidInput
from voile.core.schema import Categories, Label, Numbers, Schema

TRIES = 5
LABELS = {
    "classes": Label("ill", Categories(("no", "some", "much"))),
    "number": Label("ill", Numbers(0.0, 200.0), unit="EUR"),
}


def labels(rows: Any, label: str) -> list[Any]:
    draw = np.random.default_rng(0)
    score = 0.05 * (rows[:, 0] - 55) + 0.04 * (rows[:, 1] - 128) + rows[:, 4]
    noisy = score + 0.5 * draw.normal(size=len(rows))
    if label == "number":
        return [round(float(each), 2) for each in 80 + 25 * noisy]
    return [("no", "some", "much")[int(np.digitize(each, [-0.5, 1.2]))] for each in noisy]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return write_people(tmp_path)


def written(home: Path, label: str) -> Schema:
    schema = replace(SCHEMA, label=LABELS[label])
    (home / "people.toml").write_text(schema.dumps())
    for name, count, seed in (("rows", 1500, 0), ("open", 400, 1)):
        rows = people(count, seed)[0]
        write_csv(home / f"{name}.csv", table(count, seed) | {"ill": labels(rows, label)})
    return schema


@pytest.mark.parametrize(
    ("label", "figure"), [("classes", "log-loss"), ("number", "root of the mean squared error")]
)
def test_it_is_trained_judged_and_explained(home: Path, label: str, figure: str) -> None:
    written(home, label)
    preview: Any = handle(asked(home, preview=True))
    assert "signal" in str(preview.preview)
    result: Any = handle(asked(home, held_out=str(home / "open.csv")))
    assert len(result.new) == 3
    charged = result.trained.quality["charged"]
    found = charged["figures"][figure]
    assert found["low"] <= found["figure"] < found["high"] < found["baseline"]
    assert charged["alarms"] == []
    assert result.trained.quality["held_out"]["figures"]
    loaded = load_trained_model(home / "model")
    rows = people(3, seed=4)[0]
    assert np.array_equal(loaded.predict(rows), result.trained.additive.predict(rows))
    again: Any = handle(asked(home))
    assert again.new == ()
    handle(WriteReport.read({"artefact": str(home / "model"), "output": str(home / "page.html")}))
    assert "ill" in (home / "page.html").read_text()


def test_where_every_feature_has_cut_points_there_are_two_releases(home: Path) -> None:
    """The share of the fine tables goes to the moments."""
    points = {"age": (30.0, 50.0, 70.0), "pressure": (120.0, 140.0)}
    kept = tuple(
        replace(each, cuts=points[each.name]) for each in SCHEMA.features if each.name in points
    )
    (home / "people.toml").write_text(replace(SCHEMA, features=kept).dumps())
    preview: Any = handle(asked(home, preview=True))
    assert "fine tables" not in str(preview.preview)
    result: Any = handle(asked(home))
    trained = result.trained
    assert len(result.new) == len(trained.events) == 2
    assert sum(each.rho for each in trained.events) == pytest.approx(trained.budget.rho)
    assert "fine tables" not in str(trained.guarantee)
    assert not handle(asked(home)).new
    assert trained.quality["charged"]["figures"]["AUC"]["figure"] > 0.6
    explained: Any = handle(
        Explain.read(
            {
                "model": str(home / "model"),
                "data": str(home / "open.csv"),
                "database": str(home / "log.db"),
            }
        )
    )
    assert explained.explained.explanation.guarantees == (trained.guarantee,)
    subject = find_subject(home / "model")
    assert [each.name for each in subject.trials] == ["centred moments", "calibration table"]
    assert [each.event for each in subject.trials] == list(trained.events)
    page = handle(WriteReport(artefact=home / "model")).path
    assert "<td>centred moments</td>" in page.read_text("utf-8")
    assert "<td>fine tables</td>" not in page.read_text("utf-8")


def alarms_of_a_draw(home: Path, number: int) -> list[str]:
    """What is said about one more model of the same rows; a 95 % bound misses 1 in 40."""
    name = f"draw {number}"
    opened = {"database": str(home / "log.db"), "account": name, "dataset": name}
    handle(OpenBudget.read(opened | {"epsilon": 4.0, "delta": DELTA}))
    result: Any = handle(asked(home, account=name, folder=home / name))
    return list(result.trained.quality["alarms"])


def test_labels_without_sense_raise_an_alarm(home: Path) -> None:
    for label in LABELS:
        folder = home / label
        folder.mkdir()
        write_people(folder)
        written(folder, label)
        rows = people(1500, 0)[0]
        shuffled = np.random.default_rng(5).permutation(np.array(labels(rows, label), dtype=object))
        write_csv(folder / "rows.csv", table(1500) | {"ill": shuffled.tolist()})
        assert any(alarms_of_a_draw(folder, number) for number in range(TRIES))


@pytest.mark.parametrize(
    ("label", "names"),
    [
        (
            "classes",
            tuple(f"log-odds of {x} against the mean class" for x in ("no", "some", "much")),
        ),
        ("number", ("ill",)),
    ],
)
def test_the_command_explains_it_by_the_closed_formula(
    home: Path, label: str, names: tuple[str, ...]
) -> None:
    written(home, label)
    result: Any = handle(asked(home))
    rows = {name: values[:2] for name, values in table(4, 9).items() if name != "ill"}
    given = {"model": str(home / "model"), "data": rows, "database": str(home / "log.db")}
    found: Any = handle(Explain.read(given))
    assert found.explained.explanation.output_names == names
    inside = result.trained.additive.schema.rows(rows)
    own = result.trained.additive.explain(inside)
    assert np.allclose(found.explained.explanation.values, own.values)
    one: Any = handle(
        Explain.read(given | {"output_name": "much" if label == "classes" else "ill"})
    )
    assert one.explained.explanation.output_names == names[-1:]


def test_a_number_too_wide_to_compute_with_is_refused_before_a_charge(home: Path) -> None:
    schema = replace(SCHEMA, label=Label("ill", Numbers(-8e307, 8e307)))
    (home / "people.toml").write_text(schema.dumps())
    with pytest.raises(InvalidInput, match="too far apart"):
        handle(asked(home))


def test_labels_that_nobody_can_read_are_said_first(home: Path) -> None:
    rows = table(1500) | {"ill": ["?"] * 1500}
    write_csv(home / "rows.csv", rows)
    result: Any = handle(asked(home))
    assert "have a label and features that can be read" in result.trained.quality["alarms"][0]
    loss = result.trained.quality["charged"]["figures"]["log-loss"]
    assert min(loss["figure"], loss["low"]) >= 0
