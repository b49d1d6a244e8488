"""Options: former spellings, what a wrong value belongs to, and what --help says."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from typing import Any, Final

import pytest
import typer
from typer.testing import CliRunner

from voile.app.calls import HANDLERS
from voile.app.commands.fields import Command, RenamedWarning, field_extra
from voile.cli import commands
from voile.cli.app import app
from voile.core.errors import InvalidInput

# typer 0.20 uses names that click has since deprecated.
pytestmark = pytest.mark.filterwarnings("ignore:.*protected_args.*:DeprecationWarning")
EXPLAIN: Final = ("explain", "model.onnx", "rows.csv")
RECOMMEND: Final = ("recommend", "list", "made", "lines.csv", "--user", "7")
WHY: Final = ("recommend", "explain", "made", "lines.csv", "--user", "7")
TRAIN: Final = (
    *("recommend", "train", "items.csv", "lines.csv", "--account", "users"),
    *("--epsilon", "1", "--delta", "1e-6", "--output", "made"),
)
OPEN: Final = (
    *("budget", "open", "log.db", "clinic", "--dataset", "c", "--epsilon", "1", "--delta", "1e-6"),
)
RENEW: Final = ("budget", "renew", "log.db", "clinic", "--reason", "new cohort")
SPELLINGS: Final[list[tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]]] = [
    (EXPLAIN, ("--of", "ill"), ("--output-name", "ill")),
    (EXPLAIN, ("--between", "0", "1"), ("--output-range", "0", "1")),
    (EXPLAIN, ("--by", "ward 3"), ("--caller", "ward 3")),
    (EXPLAIN, ("--fresh",), ("--redraw",)),
    (("init", "model.onnx"), ("--of", "ill"), ("--output-name", "ill")),
    (("init", "model.onnx"), ("--between", "0", "1"), ("--output-range", "0", "1")),
    (("assess", "artefact"), ("--by", "grace"), ("--caller", "grace")),
    (OPEN, ("--by", "grace"), ("--caller", "grace")),
    (RENEW, ("--by", "grace"), ("--caller", "grace")),
    (TRAIN, ("--fresh",), ("--redraw",)),
    (TRAIN, ("--by", "grace"), ("--caller", "grace")),
    (RECOMMEND, ("--by", "grace"), ("--caller", "grace")),
    (WHY, ("--by", "grace"), ("--caller", "grace")),
    (WHY, ("--fresh",), ("--redraw",)),
    (WHY, ("--to", "others"), ("--audience", "others")),
    (WHY, ("--by-what", "genre"), ("--group-by", "genre")),
    (("train", "rows.csv", "--epsilon", "1"), ("--target", "ill"), ("--label", "ill")),
]


class _NotRun(Exception):
    """Carries the command that would have been handled."""


def command_of(monkeypatch: pytest.MonkeyPatch, *typed: str) -> Command:
    """What the command line makes of it."""
    found: list[Command] = []

    def keep(command: Command, _context: Any) -> None:
        found.append(command)
        raise _NotRun

    monkeypatch.setattr(commands, "handle", keep)
    ran = CliRunner().invoke(app, list(typed))
    assert isinstance(ran.exception, _NotRun), ran.exception or ran.stderr
    return found[0]


@pytest.mark.parametrize(("words", "former", "now"), SPELLINGS)
def test_a_former_option_does_the_same_and_names_the_new_one(
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...],
    former: tuple[str, ...],
    now: tuple[str, ...],
) -> None:
    expected = command_of(monkeypatch, *words, *now)
    assert expected.model_fields_set > command_of(monkeypatch, *words).model_fields_set
    with pytest.warns(RenamedWarning, match=f"^{former[0]} is now called {now[0]};"):
        found = command_of(monkeypatch, *words, *former)
    assert found == expected
    assert found.model_fields_set == expected.model_fields_set


def test_every_former_option_is_tried_above() -> None:
    tried = {former[0] for _, former, _ in SPELLINGS}
    marked = {
        former
        for kind in HANDLERS
        for field in kind.model_fields.values()
        for former in field_extra(field).get("formerly", ())
        if former.startswith("--")
    }
    assert marked == tried


def test_the_user_herself_is_the_audience_self(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = command_of(monkeypatch, *WHY, "--audience", "self")
    with pytest.warns(RenamedWarning) as told:
        assert command_of(monkeypatch, *WHY, "--to", "herself") == expected
    said = [str(each.message).partition(";")[0] for each in told]
    assert said == ["--to is now called --audience", "audience 'herself' is now called 'self'"]


def test_both_spellings_at_once_are_refused() -> None:
    ran = CliRunner().invoke(app, [*EXPLAIN, "--fresh", "--redraw"])
    assert isinstance(ran.exception, InvalidInput)
    assert str(ran.exception) == "--fresh is now called --redraw: give --redraw only"


def test_recommend_recommend_is_recommend_list(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = command_of(monkeypatch, *RECOMMEND)
    with pytest.warns(RenamedWarning, match="`voile recommend list`"):
        assert command_of(monkeypatch, "recommend", "recommend", *RECOMMEND[2:]) == expected


def test_a_former_option_is_told_on_standard_error() -> None:
    typed = [sys.executable, "-m", "voile.cli", *EXPLAIN, "--fresh", "--json"]
    ran = subprocess.run(typed, capture_output=True, text=True, check=False, timeout=60)
    assert ran.stderr.startswith("voile: warning: --fresh is now called --redraw; ")
    assert ran.stdout.startswith("{")


def options(command: Any) -> Iterator[tuple[str, Any]]:
    for name, each in getattr(command, "commands", {}).items():
        yield from ((f"{name} {path}", option) for path, option in options(each))
    yield from (("", option) for option in getattr(command, "params", ()))


def test_former_options_are_hidden() -> None:
    former = {"--of", "--between", "--by", "--fresh", "--by-what", "--target"}
    found = [each for _, each in options(typer.main.get_command(app)) if former & set(each.opts)]
    assert len(found) > 10
    assert all(each.hidden for each in found)


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ((*EXPLAIN, "--top", "0"), "--top: expected a number of at least 1, found 0"),
        ((*EXPLAIN, "--epsilon", "-1"), "--epsilon: expected a number above 0, found -1.0"),
        ((*EXPLAIN, "--delta", "2"), "--delta: expected a number below 1, found 2.0"),
        ((*OPEN[:-4], "--epsilon", "nan", "--delta", "0"), "--epsilon: expected a finite number"),
        ((*EXPLAIN, "--level", "high"), "--level: expected one of 'summary'"),
        ((*OPEN, "--unit", "house"), "--unit: expected one of 'row', 'explained row'"),
        ((*OPEN, "--relation", "any"), "--relation: expected one of 'zero-out', 'replace one'"),
        (("testbed", "up", "0"), "N: expected a number of at least 1, found 0"),
        ((*WHY, "--audience", "all"), "--audience: expected one of 'self' or 'others'"),
    ],
)
def test_a_wrong_value_is_told_with_its_option(typed: tuple[str, ...], said: str) -> None:
    ran = CliRunner().invoke(app, list(typed))
    assert isinstance(ran.exception, InvalidInput), ran.stderr
    assert str(ran.exception).startswith(said)


def test_help_shows_ranges_and_examples() -> None:
    shown = " ".join(CliRunner().invoke(app, ["explain", "--help"]).stdout.split())
    assert "above 0; example: 0.5" in shown.replace(" │ │ ", " ")
