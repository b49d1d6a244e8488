"""A federation by command line and by Python: one result, whichever way it is asked for."""

from __future__ import annotations

import doctest
import json
import shutil
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from tests.unit.app.federate.test_run import write_files
from typer.testing import CliRunner

from voile.app.calls import Context, handle
from voile.app.commands import federate as federate_commands
from voile.app.commands import federate as node_commands
from voile.app.commands import federate as testbed_commands
from voile.app.commands.federate import (
    Federate,
    LocalTransport,
    MakeServerKey,
    ShowFederationStatus,
    StopFederation,
    WriteReport,
)
from voile.app.commands.fields import RenamedWarning
from voile.app.federate.party import run_lock
from voile.app.federations import FederationResult
from voile.cli.app import app
from voile.core.errors import InvalidInput, Refused
from voile.federation import ProgressEvent


def typed(*words: str) -> Any:
    """What the command prints, as JSON."""
    done = CliRunner().invoke(app, [*words, "--json"], catch_exceptions=False)
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def configs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The same federation in two folders, with the same keys: nothing was trained in either."""
    folder = tmp_path_factory.mktemp("study")
    config = write_files(folder)
    other = shutil.copytree(folder, folder.with_name("copy"))
    return config, other / config.name


@pytest.fixture(scope="module")
def watched() -> list[ProgressEvent | str]:
    return []


@pytest.fixture(scope="module")
def result(configs: tuple[Path, Path], watched: list[ProgressEvent | str]) -> FederationResult:
    """By Python, in the first folder."""
    context = Context(say=watched.append, rounds=lambda _delta: watched.append)
    found = handle(Federate(config=configs[0], insist=True), context)
    assert isinstance(found, FederationResult)
    return found


def shown(result: FederationResult) -> dict[str, Any]:
    return {
        "agreement": result.agreement,
        "guarantee": result.guarantee.to_dict(),
        "artefact": str(result.artefact),
        "report": str(result.report),
        "figures": dict(result.figures),
        "compared": list(result.compared),
    }


@pytest.mark.parametrize("module", [federate_commands, node_commands, testbed_commands])
def test_the_examples_of_the_commands_hold(module: Any) -> None:
    found = doctest.testmod(module)
    assert found.attempted
    assert not found.failed


def test_a_preview_is_the_same_both_ways_and_nothing_is_written(
    configs: tuple[Path, Path],
) -> None:
    config = configs[1]
    before = sorted(config.parent.rglob("*"))
    plain = json.loads(json.dumps(asdict(handle(Federate(config=config, preview=True)))))
    by_command = typed("federate", str(config), "--preview")
    assert by_command.pop("asks_for_yes") == any(each["blocking"] for each in plain["concerns"])
    assert by_command.pop("seconds") > 0
    assert plain.pop("seconds") > 0
    assert by_command == plain
    assert sorted(config.parent.rglob("*")) == before


def test_what_would_mean_nothing_is_refused_both_ways(configs: tuple[Path, Path]) -> None:
    config = configs[1]
    said: list[str] = []
    with pytest.raises(Refused, match="nothing was charged"):
        handle(Federate(config=config), Context(say=said.append))
    assert "! " in said[0]
    ran = CliRunner().invoke(app, ["federate", str(config)])
    assert isinstance(ran.exception, Refused)
    assert not (config.parent / "output" / "artefact").exists()


def test_a_federation_is_the_same_by_command_line_and_python(
    configs: tuple[Path, Path], result: FederationResult
) -> None:
    by_command = typed("federate", str(configs[1]), "--yes")
    by_python = shown(result)
    for name in ("agreement", "guarantee"):
        assert by_command[name] == by_python[name]
    assert list(by_command["figures"]) == list(by_python["figures"])
    names = [each["what"] for each in by_command["compared"]]
    assert names == [each["what"] for each in by_python["compared"]]
    assert Path(by_command["report"]).is_file()
    assert result.report.is_file()
    assert result.example.is_file()


def test_a_finished_federation_gives_the_same_figures_both_ways(
    configs: tuple[Path, Path], result: FederationResult
) -> None:
    written = result.report.stat().st_mtime_ns
    again = handle(Federate(config=configs[0]))
    assert again == result
    assert typed("federate", str(configs[0])) == json.loads(json.dumps(shown(result)))
    assert result.report.stat().st_mtime_ns == written


def test_whoever_calls_is_told_of_rounds_and_of_what_is_done(
    result: FederationResult, watched: list[ProgressEvent | str]
) -> None:
    assert f"agreement {result.agreement}" in watched
    rounds = [each.round for each in watched if isinstance(each, ProgressEvent) and each.done]
    assert rounds == [1, 2, 3, 1, 2, 3]


def test_the_status_is_the_same_both_ways(
    configs: tuple[Path, Path], result: FederationResult
) -> None:
    found = handle(ShowFederationStatus(config=configs[0]))
    assert (found.complete, found.agreement) == (True, result.agreement)
    assert typed("federate", str(configs[0]), "--status") == found.to_dict()


def test_a_run_that_is_not_there_is_not_stopped_either_way(configs: tuple[Path, Path]) -> None:
    with pytest.raises(InvalidInput, match="no federation is running here"):
        handle(StopFederation(config=configs[0]))
    ran = CliRunner().invoke(app, ["federate", str(configs[0]), "--stop"])
    assert isinstance(ran.exception, InvalidInput)


@pytest.mark.usefixtures("result")
def test_a_run_is_asked_to_stop_both_ways(
    configs: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("voile.app.federate.status.stop_run.__defaults__", (0.0,))
    with run_lock(configs[0].parent / "output"):
        found = handle(StopFederation(config=configs[0]))
        assert found.stopped is False
        assert typed("federate", str(configs[0]), "--stop") == asdict(found)


def test_the_servers_key_is_the_same_both_ways(configs: tuple[Path, Path]) -> None:
    found = handle(MakeServerKey(config=configs[0]))
    assert found.line in configs[0].read_text()
    assert typed("federate", "keygen", str(configs[0])) == {"line": found.line}


def test_the_former_flag_for_a_key_still_works(configs: tuple[Path, Path]) -> None:
    found = handle(MakeServerKey(config=configs[0]))
    with pytest.warns(RenamedWarning, match=r"--key is now called `voile federate keygen`"):
        assert typed("federate", str(configs[0]), "--key") == {"line": found.line}


def test_flags_for_two_commands_are_refused(configs: tuple[Path, Path]) -> None:
    ran = CliRunner().invoke(app, ["federate", str(configs[0]), "--key", "--status"])
    assert ran.exit_code == 2
    assert "choose one of --key and --status" in ran.stderr


def test_a_superlink_beside_another_transport_is_refused(configs: tuple[Path, Path]) -> None:
    command = Federate(config=configs[0], superlink="here:1", transport=LocalTransport.SIMULATION)
    with pytest.raises(InvalidInput, match="a transport of its own"):
        handle(command)
    with pytest.raises(InvalidInput, match="transport: expected one of 'threads' or 'simulation'"):
        Federate.read({"config": configs[0], "transport": "pigeons"})


def test_a_report_is_the_same_both_ways_and_overwrites_nothing(
    result: FederationResult, tmp_path: Path
) -> None:
    one, two = tmp_path / "one.html", tmp_path / "two.html"
    found = handle(WriteReport(artefact=result.artefact, output=one))
    assert found.path == one
    by_command = typed("report", str(result.artefact), "--output", str(two))
    assert by_command == {"report": str(two)}
    assert one.read_bytes() == two.read_bytes()
    one.write_text("mine")
    with pytest.raises(InvalidInput, match="exists already"):
        handle(WriteReport(artefact=result.artefact, output=one))
    assert one.read_text() == "mine"
    handle(WriteReport(artefact=result.artefact, output=one, overwrite=True))
    assert one.read_bytes() == two.read_bytes()
