"""What `voile federate --status` shows of a run, and how `--stop` ends one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.unit.app.federate.test_run import write_files

from voile import cli
from voile.app.federate import federate, read_job
from voile.app.federate.party import LOCK, run_lock
from voile.app.federate.status import STATUS, STOP, RunWatch, run_status, stop_run
from voile.core.errors import InvalidInput, UnreadableFile
from voile.federation import HistoryRow, Outcome, ProgressEvent
from voile.federation.progress import NoProgress

SINCE = 1_800_000_000.0
SINCE_SHOWN = "2027-01-15 08:00:00 UTC"


@pytest.fixture
def config(tmp_path: Path) -> Path:
    return write_files(tmp_path)


@pytest.fixture
def folder(config: Path) -> Path:
    found = read_job(config).server.folder
    found.mkdir(parents=True, exist_ok=True)
    return found


def seen(answered: int, *, done: bool = False) -> ProgressEvent:
    return ProgressEvent("model", 2, 3, 3, answered, done, ())


def command(*words: str) -> int:
    with pytest.raises(SystemExit) as left:
        cli.main(list(words))
    return int(left.value.code or 0)


def test_a_run_is_stopped_shown_and_goes_on(config: Path) -> None:
    job, asked, later = read_job(config), list[ProgressEvent](), list[ProgressEvent]()

    def stop_in_round_two(now: ProgressEvent) -> None:
        if now.round == 2:
            asked.append(now)
            assert run_status(config).running
            assert not stop_run(config, patience=0)

    with pytest.raises(KeyboardInterrupt):
        federate(job, rounds_seen=stop_in_round_two)
    assert len(asked) == 1
    found = run_status(config)
    assert not found.running
    assert not found.complete
    assert found.last is not None
    assert (found.last.round, found.last.rounds, found.last.asked) == (2, 3, 3)
    assert found.lines[0] == "study v1: not running; `voile federate` with the same files goes on"

    federate(job, rounds_seen=later.append)
    assert min(each.round for each in later if each.stage == asked[0].stage) == 2
    assert run_status(config).complete
    assert run_status(config).lines[0] == "study v1: complete"


def test_a_status_before_the_first_run_writes_nothing(config: Path, folder: Path) -> None:
    before = sorted(folder.iterdir())
    assert run_status(config).lines[-1] == "no run was begun yet"
    assert sorted(folder.iterdir()) == before
    assert not (folder / LOCK).exists()


def test_the_status_says_for_whom_a_run_waits_while_it_runs(config: Path, folder: Path) -> None:
    watch = RunWatch(folder, NoProgress())
    with run_lock(folder):
        watch.begin()
        watch(seen(3, done=True))
        watch._written = 0.0
        watch.waiting({"coast": SINCE, "city": SINCE})
        assert run_status(config).lines[2:5] == [
            "stage 'model', round 2 of 3: 3 of 3 parties have answered",
            f"waiting for city since {SINCE_SHOWN}",
            f"waiting for coast since {SINCE_SHOWN}",
        ]
    assert not any(line.startswith("waiting") for line in run_status(config).lines)


def test_who_was_given_up_has_not_answered(config: Path, folder: Path) -> None:
    watch = RunWatch(folder, NoProgress())
    watch(seen(2))
    assert run_status(config).lines[2].endswith("2 of 3 parties have answered or were given up")
    gone = HistoryRow("model", 2, "city", Outcome.VANISHED, "", 0.0)
    earlier = HistoryRow("model", 1, "coast", Outcome.LATE, "", 0.0)
    watch(ProgressEvent("model", 2, 3, 3, 3, True, (earlier, gone)))
    assert run_status(config).lines[2].endswith("2 of 3 parties have answered (city: no answer)")


def test_that_a_run_waits_no_longer_is_written_at_once(config: Path, folder: Path) -> None:
    watch = RunWatch(folder, NoProgress())
    watch.waiting({"city": SINCE})
    watch.waiting({})
    last = run_status(config).last
    assert last is not None
    assert last.waiting == {}


def test_a_run_that_only_waits_is_stopped_too(folder: Path) -> None:
    watch = RunWatch(folder, NoProgress())
    (folder / STOP).touch()
    with pytest.raises(KeyboardInterrupt):
        watch.waiting({"city": SINCE})
    watch.waiting({"city": SINCE})  # one request stops one run


def test_a_new_run_drops_an_old_request_and_keeps_the_position(config: Path, folder: Path) -> None:
    RunWatch(folder, NoProgress())(seen(3, done=True))
    (folder / STOP).touch()
    watch = RunWatch(folder, NoProgress())
    watch.begin()
    watch.waiting({})
    last = run_status(config).last
    assert last is not None
    assert (last.stage, last.round) == ("model", 2)


def test_a_damaged_status_is_named_and_does_not_keep_a_run_from_starting(
    config: Path, folder: Path
) -> None:
    (folder / STATUS).write_text("[")
    with pytest.raises(UnreadableFile, match="next run writes it anew"):
        run_status(config)
    RunWatch(folder, NoProgress()).begin()
    assert run_status(config).last is not None


def test_where_nothing_runs_nothing_is_stopped(config: Path, folder: Path) -> None:
    with pytest.raises(InvalidInput, match="no federation is running here"):
        stop_run(config)
    assert not (folder / STOP).exists()


def test_the_command_shows_and_stops(
    config: Path, folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    RunWatch(folder, NoProgress())(seen(1, done=True))
    assert command("federate", str(config), "--status", "--json") == 0
    shown = json.loads(capsys.readouterr().out)
    assert (shown["running"], shown["complete"]) == (False, False)
    assert (shown["last"]["round"], shown["last"]["answered"]) == (2, 1)
    assert command("federate", str(config), "--status") == 0
    assert "round 2 of 3: 1 of 3 parties" in capsys.readouterr().out
    assert command("federate", str(config), "--stop") == 2
    assert "no federation is running here" in capsys.readouterr().err
    assert command("federate", str(config), "--status", "--stop") == 2
    assert "choose one of" in capsys.readouterr().err
    monkeypatch.setattr("voile.app.federations.stop_run", lambda _: True)
    assert command("federate", str(config), "--stop") == 0
    assert "stopped" in capsys.readouterr().out
