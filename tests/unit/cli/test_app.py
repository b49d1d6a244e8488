"""The command as people and scripts meet it: exit codes, streams, `--json`, and what it loads."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import typer
from rich.text import Text
from typer.core import TyperGroup
from typer.main import get_command

from voile._version import __version__
from voile.cli import app
from voile.core import errors

# typer 0.20 uses names that click has since deprecated.
pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning")

HEAVY = {
    "torch",
    "flwr",
    "shap",
    "opendp",
    "dp_accounting",
    "scipy",
    "sqlalchemy",
    "pandas",
    "numpy",
}

SCHEMA = """\
name = "clinic"
[label]
name = "ill"
categories = [0, 1]
[features.age]
kind = "continuous"
bounds = [18, 100]
[features."[bold]sex"]
kind = "categorical"
categories = ["female", "male"]
"""
GOOD = "age,[bold]sex,ill\n40,female,0\n"
BAD = "age,[bold]sex,extra\n17,men,1\n40,male,2\n,male,3\n"


def voile(*arguments: str | Path, **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "voile.cli", *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        **options,
    )


@pytest.fixture
def schema(tmp_path: Path) -> Path:
    path = tmp_path / "clinic.toml"
    path.write_text(SCHEMA)
    return path


@pytest.fixture
def good(tmp_path: Path) -> Path:
    path = tmp_path / "good.csv"
    path.write_text(GOOD)
    return path


@pytest.fixture
def bad(tmp_path: Path) -> Path:
    path = tmp_path / "bad.csv"
    path.write_text(BAD)
    return path


# --- start ----------------------------------------------------------------------------------------


def test_help_loads_nothing_heavy() -> None:
    script = (
        "import sys\nfrom voile.cli import main\n"
        "try:\n    main(['--help'])\nfinally:\n"
        "    print(*sys.modules, file=sys.stderr)"
    )
    run = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60
    )
    loaded = {name.partition(".")[0] for name in run.stderr.split()}
    assert "voile" in loaded
    assert loaded.isdisjoint(HEAVY)


def test_help_names_the_exit_codes_and_every_command_has_an_example() -> None:
    text = voile("--help").stdout
    for line in ("0 done", "2 usage", "3 refused", "4 verification failed", "5 fault"):
        assert line in text
    for command in ([], ["schema"], ["schema", "check"], ["schema", "show"], ["demo"]):
        run = voile(*command, "--help")
        assert run.returncode == 0
        assert "Example: voile" in run.stdout


def test_version() -> None:
    assert voile("--version").stdout == f"voile {__version__}\n"


# --- voile schema ---------------------------------------------------------------------------------


def test_check_of_data_that_fit(schema: Path, good: Path) -> None:
    run = voile("schema", "check", schema, good)
    assert (run.returncode, run.stderr) == (0, "")
    assert "1 rows, schema 'clinic': everything fits" in run.stdout


def test_check_of_data_that_do_not_fit(schema: Path, bad: Path) -> None:
    run = voile("schema", "check", schema, bad)
    assert run.returncode == 4
    for text in ("[bold]sex", "unknown category", "'men' (1)", "'17' (1)", "'' (3)", "'extra'"):
        assert text in run.stdout
    assert "no column for the label 'ill'" in run.stdout


def test_empty_cells_fit_and_are_counted(schema: Path, good: Path) -> None:
    header, _, row = GOOD.strip().partition("\n")
    cells = row.split(",")
    empty = ",".join(["", *cells[1:]])
    good.write_text(f"{header}\n{row}\n{empty}\n{empty}\n")
    run = voile("schema", "check", schema, good)
    assert (run.returncode, run.stderr) == (0, "")
    assert "empty cells, filled in with the schema's defaults: 2" in run.stdout
    assert "67% of its values are missing" in run.stdout
    assert "does not fit" not in run.stdout
    assert "3 rows, schema 'clinic': everything fits" in run.stdout
    report = json.loads(voile("schema", "check", schema, good, "--json").stdout)
    assert (report["ok"], report["empty_cells"], report["empty_labels"]) == (True, 2, 0)
    assert len(report["mostly_empty"]) == 1


def test_what_is_empty_stands_apart_from_what_does_not_fit(schema: Path, bad: Path) -> None:
    outside, _, empty = voile("schema", "check", schema, bad).stdout.partition(" empty ")
    assert "does not fit" in outside
    assert "missing" not in outside
    assert "'' (3)" in empty


def test_check_as_json(schema: Path, bad: Path) -> None:
    run = voile("schema", "check", schema, "-", "--json", input=BAD)
    assert (run.returncode, run.stderr) == (4, "")
    report = json.loads(run.stdout)
    assert (report["ok"], report["rows"], report["label"]) == (False, 3, None)
    assert report["unexpected_columns"] == ["extra"]
    assert report["features"][1]["findings"][1] == {
        "problem": "unknown category",
        "count": 1,
        "examples": [{"value": "'men'", "row": 1}],
    }
    assert json.loads(voile("schema", "check", schema, bad, "--json").stdout) == report


def test_show(schema: Path) -> None:
    run = voile("schema", "show", schema)
    assert run.returncode == 0
    assert "18 to 100" in run.stdout
    shown = json.loads(voile("schema", "show", schema, "--json").stdout)
    assert shown["features"]["age"]["default"] == 59
    assert len(shown["digest"]) == 64


def test_output_to_a_plain_terminal(schema: Path, tmp_path: Path) -> None:
    data = tmp_path / "data.csv"
    data.write_text(BAD.replace("men", "männlich"), encoding="utf-8")
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    run = voile("schema", "check", schema, data, env=environment)
    assert run.returncode == 4
    assert r"m\xe4nnlich" in run.stdout


# --- errors ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "kind"),
    [
        (["schema", "chek"], "UsageError"),
        (["schema", "show"], "UsageError"),
        (["schema", "show", "nowhere.toml"], "SchemaError"),
        (["schema", "check", "{schema}", "nowhere.csv"], "UnreadableFile"),
        (["--wrong"], "UsageError"),
    ],
)
def test_bad_input(schema: Path, arguments: list[str], kind: str) -> None:
    arguments = [argument.format(schema=schema) for argument in arguments]
    run = voile(*arguments)
    assert (run.returncode, run.stdout) == (2, "")
    assert run.stderr.startswith("voile: error: ")
    assert run.stderr.count("\n") == 1
    run = voile(*arguments, "--json")
    assert (run.returncode, run.stderr) == (2, "")
    error = json.loads(run.stdout)["error"]
    assert (error["kind"], error["exit_code"]) == (kind, 2)
    assert error["message"]


def test_a_schema_error_names_the_place(schema: Path, good: Path) -> None:
    schema.write_text(SCHEMA.replace("[18, 100]", "[100, 18]"))
    run = voile("schema", "check", schema, good)
    assert f"{schema}: line 7: features.age.bounds: " in run.stderr


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.InvalidInput("x"), 2),
        (errors.SchemaError("x", field="y"), 2),
        (errors.Refused("x"), 3),
        (errors.BudgetExceeded("x", remaining=0.0, requested=1.0), 3),
        (errors.VerificationFailed("x"), 4),
        (errors.StorageFull("x"), 5),
        (errors.MissingDependency("x"), 5),
        (errors.VoileError("x"), 5),
        (OSError(28, "No space left on device"), 5),
        (ZeroDivisionError("a\nb"), 5),
        (KeyboardInterrupt(), 130),
    ],
)
def test_every_error_has_its_code(
    error: BaseException,
    code: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    schema: Path,
) -> None:
    def fail(_path: object) -> None:
        raise error

    monkeypatch.delenv("VOILE_TRACEBACK", raising=False)
    monkeypatch.setattr("voile.core.schema.Schema.load", fail)
    from voile.cli import main

    for form in ([], ["--json"]):
        with pytest.raises(SystemExit) as left:
            main(["schema", "show", str(schema), *form])
        assert left.value.code == code
        out, err = capsys.readouterr()
        if code == 130:
            assert out + err == ""
        elif form:
            assert json.loads(out)["error"]["kind"] == type(error).__name__
        else:
            assert (out, err.count("\n")) == ("", 1)
            assert ("VOILE_TRACEBACK=1" in err) == isinstance(error, ZeroDivisionError)


def test_traceback_on_request(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], schema: Path
) -> None:
    def fail(_path: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setenv("VOILE_TRACEBACK", "1")
    monkeypatch.setattr("voile.core.schema.Schema.load", fail)
    from voile.cli import main

    with pytest.raises(SystemExit):
        main(["schema", "show", str(schema), "--json"])
    out, err = capsys.readouterr()
    assert "Traceback" in err
    assert json.loads(out)["error"]["exit_code"] == 5


@pytest.mark.parametrize("form", [[], ["--json"]])
def test_a_reader_that_goes_away(schema: Path, form: list[str]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "voile.cli", "schema", "show", str(schema), *form]
    # Without a buffer nothing would be left to write on the way out, which is what could go wrong.
    buffered = {key: value for key, value in os.environ.items() if key != "PYTHONUNBUFFERED"}
    run = subprocess.run(
        command, stdout=writer, stderr=subprocess.PIPE, check=False, timeout=60, env=buffered
    )
    os.close(writer)
    assert (run.returncode, run.stderr) == (141, b"")


def test_interrupt(schema: Path) -> None:
    command = [sys.executable, "-m", "voile.cli", "schema", "check", str(schema), "-"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe) as process:
        assert process.stdin is not None
        process.stdin.write(bytes(2**20))  # more than a pipe holds: the command has begun to read
        time.sleep(0.3)  # and waits for more: Python sees no signal just before it begins to wait
        process.send_signal(signal.SIGINT)
        process.wait(timeout=60)
        out, err = process.communicate()
    assert (process.returncode, out, err) == (130, b"", b"")


def test_a_warning_names_no_file_of_a_library() -> None:
    script = (
        "import sys, warnings; from voile import cli; from voile.cli import app; "
        "app._run = lambda _: warnings.warn('weak promise') or 0; cli.main([])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0
    assert done.stderr == "voile: warning: weak promise\n"


def test_no_word_of_a_help_text_is_taken_for_markup() -> None:
    """A bracket in a help text is written as an escaped one."""
    waiting, seen = [typer.main.get_command(app.app)], 0
    while waiting:
        command = waiting.pop()
        waiting += getattr(command, "commands", {}).values()
        helps = [getattr(each, "help", None) for each in (command, *command.params)]
        for text in filter(None, [*helps, command.epilog]):
            seen += 1
            assert Text.from_markup(text).plain == text.replace("\\[", "["), command.name
    assert seen > 100


def test_the_list_of_commands_says_what_each_says_of_itself() -> None:
    """`voile --help` loads no command; what it lists is written down beside their names."""
    whole, listed = (get_command(each) for each in (app.build(), app.build(["--help"])))
    assert isinstance(whole, TyperGroup)
    assert isinstance(listed, TyperGroup)
    shown = {name: each.help for name, each in listed.commands.items() if not each.hidden}
    own = {name: each.help for name, each in whole.commands.items() if not each.hidden}
    assert shown == {name: (text or "").split("\n\n")[0] for name, text in own.items()}


def test_help_loads_no_command() -> None:
    code = (
        "import sys; from voile.cli import app\n"
        "try: app.main(['--help'])\n"
        "except SystemExit: pass\n"
        "print(sorted(n for n in sys.modules if n.startswith('voile.app') or n == 'pydantic'))"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout.endswith("[]\n")
