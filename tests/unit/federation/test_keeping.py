"""What is kept: checkpoints, stored updates, and the history."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.rounds import ListedRounds
from tests.unit.federation.toys import (
    CAP,
    START,
    Odd,
    Pull,
    client,
    honest,
    rounds_over,
    rows_of,
    stage,
)
from voile.core import array_file
from voile.core.errors import Refused, UnreadableFile
from voile.core.guarantee import Relation
from voile.core.randomness import Seeded
from voile.core.row_note import KnownNote
from voile.federation import (
    CountingGuard,
    FedAdam,
    HistoryRow,
    Instruction,
    Outcome,
    PlainRound,
    RoundLog,
    RoundReport,
    StageResult,
    Unprotected,
    charged,
    digest_of_arrays,
    most_spent,
    read_history,
    unbounded,
    without_times,
    write_history,
)
from voile.federation.client import STORED
from voile.federation.rounds import CHECKPOINT
from voile.federation.stored_text import file_stem, write_arrays
from voile.privacy.events import Composed, Gaussian, PoissonSampled, Repeated, from_dict, to_dict

NAMES = ("ash", "birch", "cedar", "elm")
PUBLIC = Unprotected(rows_of("public", 20), "generated")


class PowerCut(BaseException):
    """Stops the server between two rounds."""


class CutAfter:
    """Books of a server that dies after a number of rounds have been told."""

    def __init__(self, rounds: int) -> None:
        self.left = rounds

    def after_round(self, report: RoundReport) -> None:  # noqa: ARG002
        if self.left == 0:
            raise PowerCut
        self.left -= 1


def run(folder: Path, books: RoundLog, nodes: CountingGuard, seed: int = 3, **settings: Any) -> Any:
    clients = [client(name, guard=nodes, folder=folder / "nodes") for name in NAMES]
    rounds = rounds_over(clients, log=books, source=Seeded(seed), checkpoints=folder / "server")
    return rounds.run(stage(clients_per_round=2, **settings), START, unprotected=PUBLIC)


@pytest.mark.parametrize("finished", [0, 1, 2])
def test_a_stopped_federation_continues_and_nobody_takes_part_twice(
    tmp_path: Path, finished: int
) -> None:
    whole = run(tmp_path / "whole", ListedRounds(), CountingGuard(CAP))
    nodes = CountingGuard(CAP)
    with pytest.raises(PowerCut):
        run(tmp_path / "cut", CutAfter(finished), nodes)
    # The server's randomness is another one: the schedule was kept.
    rest = run(tmp_path / "cut", ListedRounds(), nodes, seed=99)
    assert digest_of_arrays(rest.arrays) == digest_of_arrays(whole.arrays)
    assert rest.figures == whole.figures
    assert len(nodes.participations) == 6
    before, after = whole.rows, rest.rows
    assert [(r.round, r.client) for r in after] == [(r.round, r.client) for r in before]
    again = [row.round for row in after if row.outcome is Outcome.RESENT]
    assert again == [finished + 1, finished + 1]


def test_a_finished_stage_is_loaded_and_nobody_is_asked(tmp_path: Path) -> None:
    nodes = CountingGuard(CAP)
    whole = run(tmp_path, ListedRounds(), nodes)
    again = run(tmp_path, CutAfter(0), nodes, seed=8)
    assert digest_of_arrays(again.arrays) == digest_of_arrays(whole.arrays)
    assert again.rows == whole.rows
    assert len(nodes.participations) == 6


@pytest.mark.parametrize("changes", [{"rounds": 2}, {"participations": 3}, {"largest_change": 9.0}])
def test_a_checkpoint_of_another_agreement_is_refused(
    tmp_path: Path, changes: dict[str, Any]
) -> None:
    run(tmp_path, ListedRounds(), CountingGuard(CAP))
    with pytest.raises(Refused, match="under another agreement"):
        run(tmp_path, ListedRounds(), CountingGuard(CAP), **changes)


def test_damaged_checkpoints_are_named(tmp_path: Path) -> None:
    run(tmp_path, ListedRounds(), CountingGuard(CAP))
    path = tmp_path / "server" / "pull.2.safetensors"
    content = path.read_bytes()
    path.write_bytes(content[:-5])
    with pytest.raises(UnreadableFile, match=r"pull\.2"):
        run(tmp_path, ListedRounds(), CountingGuard(CAP))
    other = tmp_path / "server" / "pull.1.safetensors"
    path.write_bytes(other.read_bytes())
    with pytest.raises(UnreadableFile, match="another round"):
        run(tmp_path, ListedRounds(), CountingGuard(CAP))


def test_a_foreign_file_is_no_update(tmp_path: Path) -> None:
    path = write_arrays(tmp_path / "x", "something else", START, {})
    with pytest.raises(UnreadableFile, match="another program"):
        array_file.read(path, STORED)
    path.write_bytes(b"\x80\x04pickle")
    with pytest.raises(UnreadableFile, match="damaged"):
        array_file.read(path, STORED)
    with pytest.raises(UnreadableFile, match="cannot be read"):
        array_file.read(tmp_path / "absent", STORED)


def test_a_damaged_stored_update_is_not_trained_anew(tmp_path: Path) -> None:
    """A client must not quietly answer the same round with other noise."""
    nodes = CountingGuard(CAP)
    node = client("ash", guard=nodes, folder=tmp_path)
    node.answer(Instruction("pull", 1, START))
    (stored,) = tmp_path.rglob("*.safetensors")
    stored.write_bytes(b"")
    with pytest.raises(UnreadableFile):
        node.answer(Instruction("pull", 1, START))
    assert len(nodes.participations) == 1


# --- the note of the randomness ---------------------------------------------------------------


def test_what_an_aggregator_remembers_survives_a_crash(tmp_path: Path) -> None:
    """The moments of the server's Adam are kept with the arrays: the rest goes on bit for bit."""
    agreed: dict[str, Any] = {"protocol": PlainRound(FedAdam())}
    whole = run(tmp_path / "whole", ListedRounds(), CountingGuard(CAP), **agreed)
    nodes = CountingGuard(CAP)
    with pytest.raises(PowerCut):
        run(tmp_path / "cut", CutAfter(2), nodes, **agreed)
    rest = run(tmp_path / "cut", ListedRounds(), nodes, **agreed)
    assert digest_of_arrays(whole.arrays) == digest_of_arrays(rest.arrays)
    plain = run(tmp_path / "plain", ListedRounds(), CountingGuard(CAP))
    assert digest_of_arrays(whole.arrays) != digest_of_arrays(plain.arrays)
    with pytest.raises(Refused, match="was made under another agreement"):
        run(tmp_path / "cut", ListedRounds(), nodes)


def continued(folder: Path, nodes: CountingGuard, seed: int | None) -> StageResult:
    clients = [client(name, guard=nodes, folder=folder / "nodes", seed=seed) for name in NAMES]
    return rounds_over(clients, checkpoints=folder / "server").run(
        stage(clients_per_round=2), START
    )


def test_fresh_noise_needs_no_note(tmp_path: Path) -> None:
    assert continued(tmp_path, CountingGuard(CAP), None).note is None


def test_a_checkpoint_keeps_the_note_of_what_it_was_made_of(tmp_path: Path) -> None:
    nodes = CountingGuard(CAP)
    first = continued(tmp_path, nodes, 7)
    again = continued(tmp_path, nodes, None)  # the clients of today have fresh noise
    assert digest_of_arrays(again.arrays) == digest_of_arrays(first.arrays)
    assert first.note == again.note == KnownNote.SEEDED_NOISE


def test_a_stored_update_is_sent_with_the_note_that_it_was_made_with(tmp_path: Path) -> None:
    nodes = CountingGuard(CAP)
    client("ash", guard=nodes, folder=tmp_path, seed=7).answer(Instruction("pull", 1, START))
    fresh = client("ash", guard=nodes, folder=tmp_path, seed=None)
    again = fresh.answer(Instruction("pull", 1, START))
    assert again.resent
    assert again.note == KnownNote.SEEDED_NOISE
    assert fresh.answer(Instruction("pull", 2, START)).note is None


def test_an_update_that_could_not_be_used_was_seen_with_its_note() -> None:
    odd = Odd("odd", lambda i: honest("odd", i, arrays={}, note=str(KnownNote.SEEDED_NOISE)))
    found = rounds_over([odd]).run(stage(clients_per_round=1, rounds=1), START)
    assert [row.outcome for row in found.rows] == [Outcome.WRONG_SHAPE]
    assert found.note == KnownNote.SEEDED_NOISE


def test_what_does_not_say_with_what_randomness_it_was_made_is_refused(tmp_path: Path) -> None:
    nodes = CountingGuard(CAP)
    continued(tmp_path, nodes, None)
    for path in tmp_path.rglob("*.safetensors"):
        without_note(path)
    with pytest.raises(UnreadableFile, match=r"pull\.1"):
        continued(tmp_path, nodes, None)
    names = {path.parent.name for path in (tmp_path / "nodes").rglob("pull.1.*")}
    node = client(sorted(names)[0], guard=nodes, folder=tmp_path / "nodes", seed=None)
    with pytest.raises(Refused, match="with what randomness"):
        node.answer(Instruction("pull", 1, START))


def without_note(path: Path) -> None:
    kind = CHECKPOINT if path.parent.name == "server" else STORED
    arrays, label = array_file.read(path, kind)
    label.pop("note", None)
    for row in label.get("rows", []):
        row.pop("note")
    write_arrays(path, kind, arrays, label)


def test_file_names_are_safe_and_different() -> None:
    names = ["black box", "black-box", "black_box", "../x", "a/b", "ä", "a", ".", "-20-", " "]
    stems = [file_stem(name) for name in names]
    assert len(set(stems)) == len(names)
    assert all(set(stem) <= set("-abcdefghijklmnopqrstuvwxyz0123456789") for stem in stems)


# --- history --------------------------------------------------------------------------------------


def test_the_history_survives_parquet(tmp_path: Path) -> None:
    rows = run(tmp_path, ListedRounds(), CountingGuard(CAP)).rows
    path = write_history(rows, tmp_path / "history.parquet")
    assert read_history(path) == list(rows)
    assert read_history(write_history([], tmp_path / "empty.parquet")) == []
    assert from_dict(json.loads(rows[0].event)) == Pull().cost(40)


def test_a_foreign_file_is_no_history(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"PAR1")
    with pytest.raises(UnreadableFile):
        read_history(tmp_path / "x")


def test_released_rows_have_no_times() -> None:
    row = HistoryRow("pull", 1, "ash", Outcome.ANSWERED, "", 0.25)
    assert without_times([row]) == [replace(row, seconds=0.0)]


EVENT = Repeated(PoissonSampled(Gaussian(1.0), 0.25, Relation.BLANK_ONE), 2)
TEXT = json.dumps(to_dict(EVENT), sort_keys=True)


def rows_with(*outcomes: Outcome, client: str = "ash", event: str = TEXT) -> list[HistoryRow]:
    return [HistoryRow("pull", n, client, o, event, 0.0) for n, o in enumerate(outcomes, 1)]


def test_everything_that_may_have_been_trained_is_charged() -> None:
    free = {Outcome.REFUSED, Outcome.DUPLICATE}
    for outcome in set(Outcome) - {Outcome.OTHER_COST}:
        found = charged(rows_with(outcome))
        assert found == ({} if outcome in free else {"ash": Composed((Repeated(EVENT, 1),))})
    assert charged(rows_with(Outcome.ANSWERED, event="")) == {}


def test_of_a_client_that_stated_another_cost_nothing_is_known() -> None:
    rows = rows_with(Outcome.ANSWERED, Outcome.OTHER_COST) + rows_with(
        Outcome.ANSWERED, client="birch"
    )
    assert unbounded(rows) == ("ash",)
    assert set(charged(rows)) == {"birch"}
    assert most_spent(rows, 1e-5) == math.inf


def test_the_federations_figure_is_that_of_the_client_who_spent_most() -> None:
    from voile.privacy.accounting import PrivacyLoss

    rows = rows_with(Outcome.ANSWERED, Outcome.LATE) + rows_with(Outcome.ANSWERED, client="birch")
    expected = PrivacyLoss().compose(EVENT, 2).epsilon(1e-5)
    assert most_spent(rows, 1e-5) == pytest.approx(expected, rel=1e-12)
    assert most_spent(rows[2:], 1e-5) < expected
    assert most_spent([], 1e-5) == 0.0


def test_arrays_survive_the_disk_bit_for_bit(tmp_path: Path) -> None:
    arrays = {"x": np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32)}
    found, label = array_file.read(write_arrays(tmp_path / "a" / "x", "k", arrays, {"n": 1}), "k")
    assert digest_of_arrays(found) == digest_of_arrays(arrays)
    assert label["n"] == 1
