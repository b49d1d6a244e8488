"""`--verbose`, `--log-file`, and what Ctrl-C says."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any, NoReturn

import pytest

from voile import cli
from voile.cli.progress import LogSettings, interruptible, logged, taken_out


def run(*words: str) -> int:
    with pytest.raises(SystemExit) as left:
        cli.main(list(words))
    return int(left.value.code or 0)


@pytest.mark.parametrize(
    ("typed", "left", "settings"),
    [
        (["a", "--verbose", "b"], ["a", "b"], LogSettings(True)),
        (["--log-file", "x", "a"], ["a"], LogSettings(False, Path("x"))),
        (["a", "--log-file=x", "--verbose"], ["a"], LogSettings(True, Path("x"))),
        (["a", "--", "--verbose"], ["a", "--", "--verbose"], LogSettings()),
        (["a", "--log-file"], ["a", "--log-file"], LogSettings()),
    ],
)
def test_the_options_may_stand_anywhere(
    typed: list[str], left: list[str], settings: LogSettings
) -> None:
    assert taken_out(typed) == (left, settings)


def test_a_log_file_is_added_to_and_holds_errors(tmp_path: Path) -> None:
    log = tmp_path / "voile.log"
    for _ in range(2):
        assert run("schema", "show", "nowhere.toml", "--log-file", str(log)) == 2
    lines = log.read_text().splitlines()
    assert len([line for line in lines if "INFO voile schema show nowhere.toml" in line]) == 2
    assert len([line for line in lines if "ERROR SchemaError: nowhere.toml" in line]) == 2
    assert "Traceback" not in log.read_text(), "what people did wrong is no bug of ours"


def test_a_bug_is_there_with_its_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> NoReturn:
        raise ZeroDivisionError("of ours")

    monkeypatch.setattr("voile.core.schema.Schema.load", broken)
    log = tmp_path / "voile.log"
    assert run("schema", "show", "any.toml", "--log-file", str(log)) == 5
    assert "in broken" in log.read_text()


def test_no_password_is_in_it_and_nothing_stays_switched_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log, before = tmp_path / "voile.log", list(logging.getLogger("voile").handlers)
    with logged(LogSettings(True, log), ["budget", "show", "postgresql://a:secret@b/c"]):
        logging.getLogger("voile.said").info("printed already")
        logging.getLogger("voile.x").debug("a step")
    assert logging.getLogger("voile").handlers == before
    assert "secret" not in log.read_text() + (shown := capsys.readouterr().err)
    assert "postgresql://a:...@b/c" in log.read_text()
    assert "printed already" in log.read_text()
    assert "a step" in shown
    assert "printed already" not in shown


@pytest.mark.parametrize("name", ["nowhere/voile.log", "schema.toml"])
def test_a_log_file_that_cannot_be_or_must_not_be_written_is_refused_first(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("schema.toml").write_text("kept")
    assert run("schema", "show", "schema.toml", "--log-file", name) == 2
    assert name in capsys.readouterr().err
    assert Path("schema.toml").read_text() == "kept"


def test_ctrl_c_says_what_is_kept_and_how_to_go_on(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["voile", "federate", "a study/federation.toml"])
    with pytest.raises(KeyboardInterrupt), interruptible("rounds are kept"):
        raise KeyboardInterrupt
    said = capsys.readouterr().err
    assert "interrupted: rounds are kept" in said
    assert said.splitlines()[-1] == "  voile federate 'a study/federation.toml'"
