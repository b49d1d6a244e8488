"""Ctrl-C in the middle of long commands: one message, nothing lost, and the way on works."""

from __future__ import annotations

import contextlib
import io
import json
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.faults.interrupting import Point, command
from tests.unit.app.federate.test_kinds import write_logistic
from tests.unit.cli.test_explain import BACKGROUND, FREE, asked
from tests.unit.cli.test_explain import prepared as loans
from tests.unit.recommenders.examples import catalogue, table
from voile import cli
from voile.app import trained_recommender as recommenders
from voile.app.assess import handler as assessing
from voile.app.explain import files, inputs, outputs
from voile.app.federate import run as federation
from voile.app.recommend import handler as asking
from voile.assess import assessment
from voile.cli import commands, explain_output
from voile.models import WrappedModel
from voile.pipelines.network_task import NetworkTask
from voile.recommenders import PrivateGram

__all__ = ["loans"]
pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning")
INTERRUPTED = 130


def state(folder: Path, database: str = "log.db") -> Any:
    """What was recorded, in order, and what every account has spent."""
    shown = done(["audit", "show", database, "--last", "1000", "--check", "--json"], folder)
    kinds = [each["kind"] for each in json.loads(shown)["records"]]
    return kinds, json.loads(done(["budget", "show", database, "--json"], folder))


def here(arguments: list[str], folder: Path) -> tuple[int, str]:
    """Typed in this process, which has loaded everything for those that are interrupted later."""
    out = io.StringIO()
    with (
        contextlib.chdir(folder),
        contextlib.redirect_stdout(out),
        pytest.raises(SystemExit) as end,
    ):
        cli.main(arguments)
    return int(end.value.code or 0), out.getvalue()


def done(arguments: list[str], folder: Path) -> str:
    code, out = here(arguments, folder)
    assert code == 0, out
    return out


def interrupted(arguments: list[str], folder: Path, point: Point) -> list[str]:
    """What the interrupted command says to type."""
    ended = command(arguments, folder, point)
    assert ended.code == INTERRUPTED, ended
    assert ended.out == ""
    assert ended.errors.count("interrupted:") == 1
    assert "Traceback" not in ended.errors
    assert "Exception" not in ended.errors
    assert ended.hint[0] == "voile"
    return ended.hint[1:]


def verified(folder: Path, database: str = "log.db") -> None:
    done(["budget", "verify", database], folder)


# --- voile federate -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_logistic(tmp_path_factory.mktemp("study")).parent


@pytest.fixture(scope="module")
def finished(study: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that nobody interrupted."""
    folder = tmp_path_factory.mktemp("finished") / "study"
    shutil.copytree(study, folder)
    done(["federate", "federation.toml", "--yes"], folder)
    return folder


BOOKS = ("output/log.db", "nodes/city/log.db", "nodes/coast/log.db", "nodes/harbour/log.db")


def without_losses(found: Any) -> Any:
    """Of a party that was charged and had not stored its update when the process ended, nothing is
    heard in that round: it does not train twice for one charge."""
    kinds, balances = found
    return [kind for kind in kinds if kind not in ("absence", "refusal")], balances


@pytest.mark.parametrize(
    "point",
    [
        Point(NetworkTask, "fit", 5),  # a party trains, in a thread of its own
        Point(federation, "finish"),  # the artefact is written but for its manifest
    ],
    ids=lambda point: point.name,
)
def test_a_federation_goes_on_where_it_was(
    study: Path, finished: Path, tmp_path: Path, point: Point
) -> None:
    folder = tmp_path / "study"
    shutil.copytree(study, folder)
    typed = ["federate", "federation.toml", "--yes"]
    assert interrupted(typed, folder, point) == typed
    assert not (folder / "output/artefact/artefact.json").exists()
    done(typed, folder)
    for database in BOOKS:
        verified(folder, database)
        assert without_losses(state(folder, database)) == state(finished, database)
    logs = "output/artefact/logs/city"
    done(["audit", "verify", logs, "--policy", f"{logs}/audit-policy.toml"], folder)


def test_a_process_that_nobody_prepared_ends_as_cleanly(study: Path, tmp_path: Path) -> None:
    """Threads of parties are in the middle of whatever they do when the interpreter ends."""
    folder = tmp_path / "study"
    shutil.copytree(study, folder)
    config = folder / "federation.toml"
    config.write_text(config.read_text().replace("rounds = 3", "rounds = 60"))
    words = [sys.executable, "-m", "voile.cli", "federate", config.name, "--yes"]
    with subprocess.Popen(words, cwd=folder, text=True, stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        with contextlib.closing(process.stderr) as said:
            assert any("round 2 of 60" in line for line in said)
            process.send_signal(signal.SIGINT)
            rest = said.read()
        assert process.wait(60) == INTERRUPTED
    assert rest.endswith(f"to continue, run:\n  voile {shlex.join(words[3:])}\n")
    assert "Traceback" not in rest
    for database in BOOKS[1:]:
        verified(folder, database)


# --- voile explain --------------------------------------------------------------------------------


def explaining(folder: Path, *more: str) -> list[str]:
    lines = [f"{number % 10},{number % 7},yes" for number in range(40)]
    (folder / "many.csv").write_text("\n".join(["income,debt,employed", *lines]) + "\n")
    return asked("many.csv", *more, "--output", "e.voile")


@pytest.mark.parametrize("protected", [FREE, BACKGROUND], ids=["free", "charged"])
def test_an_explanation_that_was_computed_is_neither_charged_nor_recorded(
    loans: Path, tmp_path: Path, protected: tuple[str, ...]
) -> None:
    for each in ("interrupted", "whole"):
        shutil.copytree(loans, tmp_path / each)
    folder, whole = tmp_path / "interrupted", tmp_path / "whole"
    before, typed = state(folder), explaining(folder, *protected)
    assert interrupted(typed, folder, Point(WrappedModel, "predict", 2)) == typed
    assert state(folder) == before
    assert not (folder / "e.voile").exists()
    done(typed, folder)
    done(explaining(whole, *protected), whole)
    assert state(folder) == state(whole)
    verified(folder)
    done(["audit", "verify", "e.tlog-proof", "--answer", "e.voile"], folder)


@pytest.mark.parametrize("more", [(), ("--redraw",)], ids=["plain", "fresh"])
def test_an_explanation_that_was_paid_for_is_given_again(
    loans: Path, tmp_path: Path, more: tuple[str, ...]
) -> None:
    folder = tmp_path / "loans"
    shutil.copytree(loans, folder)
    typed = explaining(folder, *BACKGROUND)
    hint = interrupted([*typed, *more], folder, Point(files, "write_receipts"))
    assert hint == [*typed, "--yes"]  # its file is there, its receipt is not
    charged = state(folder)
    assert charged[0].count("release") == 1
    done(hint, folder)
    assert state(folder) == charged
    verified(folder)
    done(["audit", "verify", "e.tlog-proof", "--answer", "e.voile"], folder)


def test_pages_that_were_written_in_part_are_written_again(loans: Path, tmp_path: Path) -> None:
    folder = tmp_path / "loans"
    shutil.copytree(loans, folder)
    lines = [f"{number % 10},{number % 7},yes" for number in range(5)]
    (folder / "five.csv").write_text("\n".join(["income,debt,employed", *lines]) + "\n")
    typed = asked("five.csv", *FREE, "--page", "why/")
    hint = interrupted(typed, folder, Point(outputs, "write_page", 3))
    assert hint == [*typed, "--yes"]
    done(hint, folder)
    assert len(list((folder / "why").glob("*.html"))) == 5
    done(["audit", "verify", "why/5.row-proof", "--answer", "why/5.voile"], folder)
    verified(folder)


def test_who_interrupts_before_anything_is_charged_is_told_so(loans: Path, tmp_path: Path) -> None:
    folder = tmp_path / "loans"
    shutil.copytree(loans, folder)
    typed = [*explaining(folder, *BACKGROUND), "--redraw"]
    before = state(folder)
    for point in (
        Point(inputs.ExplanationInputs, "read_rows"),
        Point(commands, "handle"),
    ):
        ended = command(typed, folder, point)
        assert ended.code == INTERRUPTED
        assert "interrupted: nothing was charged or released; to continue" in ended.errors
        assert ended.hint == ["voile", *typed]  # nothing was paid for: new noise is what is wanted
    assert state(folder) == before


def test_who_interrupts_what_is_printed_last_is_told_that_it_is_kept(
    loans: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "loans"
    shutil.copytree(loans, folder)
    typed = explaining(folder, *BACKGROUND)
    hint = interrupted([*typed, "--redraw"], folder, Point(explain_output, "print_explained"))
    assert hint == [*typed, "--yes"]
    charged = state(folder)
    done(hint, folder)
    assert state(folder) == charged


def test_a_hint_names_no_option_that_is_not_needed(loans: Path, tmp_path: Path) -> None:
    folder = tmp_path / "loans"
    shutil.copytree(loans, folder)
    typed = explaining(folder, *BACKGROUND)
    assert interrupted(typed, folder, Point(outputs.Outputs, "write")) == typed
    charged = state(folder)
    done(typed, folder)
    assert state(folder) == charged


# --- voile recommend train ------------------------------------------------------------------------


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("shop")
    items, columns = catalogue(), table(300)
    lines = [
        f"{item},{'|'.join(genres)}"
        for item, genres in zip(items.items, items.kinds["genre"], strict=True)
    ]
    (folder / "items.csv").write_text("\n".join(["item,genre", *lines]) + "\n")
    pairs = zip(columns["user"].tolist(), columns["item"].tolist(), strict=True)
    (folder / "lines.csv").write_text("user,item\n" + "".join(f"{u},{i}\n" for u, i in pairs))
    done(["audit", "init", "log.db", "--origin", "example.org/shop"], folder)
    promise = ("--dataset", "shop 2026", "--epsilon", "6", "--delta", "1e-6", "--parallel")
    done(["budget", "open", "log.db", "users", "--unit", "user", *promise], folder)
    return folder


@pytest.mark.parametrize(
    "point",
    [Point(PrivateGram, "draw"), Point(recommenders, "replace_file", 1)],
    ids=["between both releases", "half written"],
)
def test_a_recommender_is_paid_for_once(shop: Path, tmp_path: Path, point: Point) -> None:
    for each in ("interrupted", "whole"):
        shutil.copytree(shop, tmp_path / each)
    folder, whole = tmp_path / "interrupted", tmp_path / "whole"
    price = ("--account", "users", "--epsilon", "3", "--delta", "1e-6", "--output", "made")
    typed = ["recommend", "train", "items.csv", "lines.csv", *price]
    hint = interrupted([*typed, "--redraw"], folder, point)
    assert hint == typed
    done(hint, folder)
    done(typed, whole)
    assert state(folder) == state(whole)
    verified(folder)
    done(["recommend", "list", "made", "lines.csv", "--user", "7"], folder)


def test_a_recommender_whose_users_are_being_read_was_not_charged(
    shop: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "shop"
    shutil.copytree(shop, folder)
    price = ("--account", "users", "--epsilon", "3", "--delta", "1e-6", "--output", "made")
    typed = ["recommend", "train", "items.csv", "lines.csv", *price]
    ended = command(typed, folder, Point(asking, "read_interactions"))
    assert "interrupted: nothing was charged" in ended.errors
    assert ended.hint == ["voile", *typed]


# --- voile assess ---------------------------------------------------------------------------------


def test_an_assessment_that_has_not_begun_says_how_it_does(finished: Path) -> None:
    typed = ["assess", "output/artefact"]
    ended = command(typed, finished, Point(assessing, "find_subject"))
    assert "interrupted: nothing was charged" in ended.errors
    assert ended.hint == ["voile", *typed]


def test_an_assessment_that_is_broken_off_leaves_nothing(finished: Path, tmp_path: Path) -> None:
    folder = tmp_path / "study"
    shutil.copytree(finished, folder)
    before, typed = state(folder, BOOKS[0]), ["assess", "output/artefact", "--minutes", "0.01"]
    assert interrupted(typed, folder, Point(assessment.BettingTest, "play", 2)) == typed
    assert state(folder, BOOKS[0]) == before
    assert not (folder / "output/artefact/assessment.json").exists()
    assert here(typed, folder)[0] in (0, 7)  # blind, in so short a time
    kinds, budgets = state(folder, BOOKS[0])
    assert (kinds, budgets) == ([*before[0], "assessment"], before[1])
    verified(folder, BOOKS[0])
