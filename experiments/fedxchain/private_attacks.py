"""Two attackers of ten parties, with privacy and without: who is weighted, who is paid.

Three real tables, 500 rows a party, 200 public rows; parties alike, or with labels skewed by a
Dirichlet(0.5) draw. The rule was chosen on Adult, generated data, seeds 100 to 105 of the Dutch
census and seeds 100 to 102 of the two others; seeds from 11 on are reported. Each run is kept in a
file, so a command that was broken off goes on.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

import numpy as np
from benchmarks.harness import Figure, write

from experiments.fedxchain.attackers import Attack, Poisoned, backdoored, flipped, nothing, times
from experiments.lib.datasets import loaders
from experiments.lib.datasets.partitions import at_random, evenly_by_label
from voile.core.atomic_file import replace_file
from voile.core.guarantee import Protected, ProtectedUnit, Relation
from voile.core.randomness import Seeded
from voile.datasets import Dataset
from voile.federation import (
    Client,
    CountingGuard,
    FedAvg,
    Node,
    NoGuard,
    PlainRound,
    Rounds,
    SeededSources,
    Threads,
    Unprotected,
)
from voile.federation.stage import Stage
from voile.pipelines.facts import FederationFacts, classifier_training
from voile.pipelines.tables import TableRecords
from voile.pipelines.trusted_averaging import (
    STAGE,
    ComparisonRows,
    TrustedPlan,
    plan_trusted_averaging,
    train_trusted,
)
from voile.pipelines.trusted_averaging.evidence import EvidenceHistory

DATA: Final = ("dutch_census", "acs_income", "acs_employment")
EPSILONS: Final = (2.0, 8.0, None)
PARTIES, BAD, ROWS, PUBLIC, MEASURED, ROUNDS = 10, 2, 500, 200, 3000, 10
FAIR: Final = BAD / PARTIES
NOBODY: Final = "no attack"
LEFT_OUT: Final = "attackers left out"


def noise_of_equal_length(change: Mapping[str, Any], number: int) -> dict[str, Any]:
    """A free rider that hides: noise as long as an honest update."""
    draw = np.random.default_rng([number, 5])
    drawn = {name: draw.normal(size=array.shape) for name, array in sorted(change.items())}
    lengths = [np.sqrt(sum(float(np.sum(a**2)) for a in each.values())) for each in (change, drawn)]
    return {name: lengths[0] / lengths[1] * array for name, array in drawn.items()}


def collusion(seed: int) -> Callable[[Mapping[str, Any], int], dict[str, Any]]:
    """All attackers move all values one way, the same in each round."""

    def move(change: Mapping[str, Any], number: int) -> dict[str, Any]:
        del number
        draw = np.random.default_rng([99, seed])
        size = 3 * float(np.mean([np.abs(array).mean() for array in change.values()]))
        return {n: size * draw.choice([-1.0, 1.0], a.shape) for n, a in sorted(change.items())}

    return move


def attacks(seed: int) -> dict[str, Attack]:
    found = (
        Attack("label flip", rows=flipped),
        Attack("sign flip", update=times(-1.0)),
        Attack("noise", update=noise_of_equal_length),
        Attack("free rider", update=nothing),
        Attack("scaling", update=times(10.0)),
        Attack("collusion", update=collusion(seed)),
        Attack("backdoor", rows=backdoored, update=times(3.0)),
    )
    return {attack.name: attack for attack in found}


ATTACKS: Final = tuple(attacks(0))


@dataclass(frozen=True)
class Setting:
    """Everything a run depends on."""

    data: str
    seed: int
    skewed: bool
    epsilon: float | None
    attack: str = NOBODY
    plain: bool = False
    rows: int = ROWS

    @property
    def table(self) -> Dataset:
        return table(self.data)

    def records(self, places: Any) -> TableRecords:
        found = self.table
        return TableRecords.from_dataset(
            Dataset(self.data, found.schema, found.rows[places], found.labels[places])
        )

    def parts(self) -> tuple[dict[str, TableRecords], TableRecords, TableRecords]:
        """Records of the parties, public rows, and rows to measure on."""
        count = len(self.table.rows)
        order = np.random.default_rng([self.seed, count]).permutation(count)
        train, rest = order[: PARTIES * self.rows], order[PARTIES * self.rows :]
        if self.skewed:
            labels = self.table.labels[train]
            dealt = evenly_by_label(labels, PARTIES, alpha=0.5, seed=self.seed)
        else:
            dealt = at_random(len(train), PARTIES, seed=self.seed)
        parties = {name: self.records(train[places]) for name, places in dealt.clients.items()}
        return parties, self.records(rest[:PUBLIC]), self.records(rest[PUBLIC : PUBLIC + MEASURED])


@cache
def table(name: str) -> Dataset:
    if name == "clinic":  # needs no files
        from voile.datasets import clinic_federation

        return clinic_federation(1200, seed=7).together()
    found: Dataset = getattr(loaders, name)()
    return found


@cache
def _noise(epsilon: float | None, rows: int) -> float | None:
    """The same for all sets: it follows from sizes and rounds."""
    if epsilon is None:
        return None
    facts = _facts("clinic", {f"{i}": rows for i in range(PARTIES)})
    return plan_trusted_averaging(facts, epsilon=epsilon, delta=1e-5).noise_multiplier


def _facts(data: str, sizes: Mapping[str, int]) -> FederationFacts:
    protected = Protected(ProtectedUnit.ROW, Relation.BLANK_ONE, data)
    return FederationFacts(table(data).schema, sizes, protected, rounds=ROUNDS)


def run(setting: Setting) -> dict[str, Any]:
    """One federation; noise is seeded: utility only."""
    parties, public, measured = setting.parts()
    if setting.attack == LEFT_OUT:
        parties = {name: parties[name] for name in sorted(parties)[BAD:]}
    facts = _facts(setting.data, {name: len(found) for name, found in parties.items()})
    training = classifier_training(facts, hidden=())
    plan = TrustedPlan(facts, training, _noise(setting.epsilon, setting.rows), 1e-5, verified=True)
    bad = sorted(parties)[:BAD] if setting.attack in ATTACKS else []
    guard: Any = NoGuard() if setting.epsilon is None else CountingGuard(ROUNDS)
    nodes = []
    for name, found in parties.items():
        tasks, records = dict(plan.tasks), found
        if name in bad:
            attack = attacks(setting.seed)[setting.attack]
            tasks[STAGE], records = Poisoned(tasks[STAGE], attack), attack.rows(found)
        client = Client(name, len(found), records, tasks, guard, SeededSources(setting.seed))
        nodes.append(Node(client))
    rounds = Rounds(Threads(nodes), facts.sizes, source=Seeded(setting.seed))
    held_out = Unprotected(measured, "held out")
    if setting.plain:
        task = plan.local.network
        stage = Stage(STAGE, task, ROUNDS, len(parties), ROUNDS, PlainRound(FedAvg()))
        result = rounds.run(stage, task.start(0), unprotected=held_out)
        return {"accuracy": result.figures[-1]["accuracy"]}
    compared = ComparisonRows(public.rows, public.labels)
    trained = train_trusted(plan, rounds, public=compared, unprotected=held_out)
    scores = trained.history.scores
    rewards = {n: sum(s.reward for s in scores.get(n, ())) for n in parties}
    total = sum(rewards.values()) or 1.0
    shares = {name: each / total for name, each in rewards.items()}
    first = sorted(shares, key=lambda name: -shares[name])[:2]
    known = EvidenceHistory.from_memory(trained.results[STAGE].memory)
    honest = [name for name in parties if name not in bad]
    return {
        "accuracy": trained.results[STAGE].figures[-1]["accuracy"],
        "reward": sum(shares[name] for name in bad),
        "first": any(name in first for name in bad),
        "lowest": min(shares[name] for name in honest),
        "told": known.is_told,
        "named": sum(bool(known.parties[name][-1].reason) for name in bad),
        "heaviest": max(s.weight for rows in scores.values() for s in rows),
    }


def kept(folder: Path, setting: Setting) -> dict[str, Any]:
    """The run that is kept under this setting, or a new one."""
    named = json.dumps(asdict(setting), sort_keys=True)
    path = folder / f"private-{hashlib.sha256(named.encode()).hexdigest()[:24]}.json"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        text = json.dumps({"setting": named, "outcome": run(setting)})
        replace_file(path, text.encode())
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))["outcome"]
    return found


def write_private(folder: Path, seeds: Sequence[int], name: str) -> None:
    """The table by attack, with all cells, as `name`; the targets as `name`_targets."""
    for seed in seeds:  # seeds outside: what is broken off holds whole matrices of fewer seeds
        for data in DATA:
            for skewed in (False, True):
                _matrix(folder, data, [seed], skewed=skewed)
        print(f"seed {seed} is done", flush=True)
    rows, cells, targets = [], [], []
    for skewed in (False, True):
        found = {data: _matrix(folder, data, seeds, skewed=skewed) for data in DATA}
        parties = "skewed" if skewed else "alike"
        rows += _rows(found, parties)
        cells += [cell.figure(parties) for cell in _cells(found)]
        targets += _targets(found, parties)
    about: dict[str, Any] = {
        "seed": list(seeds),
        "command": f"VOILE_DATA=... python -m experiments.fedxchain private --seeds {len(seeds)}",
        "setting": f"{BAD} of {PARTIES} parties attack, {ROWS} rows each, {PUBLIC} public rows, "
        f"{ROUNDS} rounds, logistic regression; skewed: labels by Dirichlet(0.5), equal sizes; "
        "noise seeded: utility only",
    }
    peer = "attackers' share of rewards; the peer is their fair share"
    write(name, peer, cells, columns=list(COLUMNS), rows=rows, **about)
    write(f"{name}_targets", "over all sets, epsilons and attacks", targets, **about)


Matrix = Mapping[tuple[float | None, str, bool], list[dict[str, Any]]]
COLUMNS: Final = (
    "parties", "privacy", "attack", "runs told apart", "attackers' rewards (fair: 0.20)",
    "an attacker first or second", "lowest honest reward (fair: 0.10)", "accuracy",
    "all honest", "attackers left out", "plain averaging",
)  # fmt: skip


def _matrix(folder: Path, data: str, seeds: Iterable[int], *, skewed: bool) -> Matrix:
    return {
        (epsilon, attack, plain): [
            kept(folder, Setting(data, seed, skewed, epsilon, attack, plain)) for seed in seeds
        ]
        for epsilon in EPSILONS
        for attack in (NOBODY, LEFT_OUT, *ATTACKS)
        for plain in (False, True)
    }


@dataclass(frozen=True)
class Cell:
    """One set, epsilon and attack, over all seeds.

    Args:
        runs: under attack.
        honest, left_out, plain: accuracy if all are honest, if attackers are left out, and of
            plain averaging under the same attack.
    """

    data: str
    epsilon: float | None
    attack: str
    runs: Sequence[dict[str, Any]]
    honest: float
    left_out: float
    plain: float

    @property
    def told(self) -> list[dict[str, Any]]:
        return [each for each in self.runs if each["told"]]

    @property
    def accuracy(self) -> float:
        return _mean(self.runs, "accuracy")

    def figure(self, parties: str) -> Figure:
        share, told = _mean(self.told, "reward"), self.told
        unit = (
            f"of rewards where told apart ({len(told)} of {len(self.runs)} runs), first or second "
            f"in {sum(e['first'] for e in told)}, lowest honest {_mean(told, 'lowest'):.3f}; "
            f"accuracy {100 * self.accuracy:.1f} %, all honest {100 * self.honest:.1f} %, "
            f"attackers left out {100 * self.left_out:.1f} %, plain {100 * self.plain:.1f} %"
        )
        what = f"{self.data}, {parties}, {_privacy(self.epsilon)}: {self.attack}"
        return Figure(what, unit, share, FAIR, share / FAIR)


def _cells(found: Mapping[str, Matrix]) -> list[Cell]:
    return [
        Cell(
            data,
            epsilon,
            attack,
            matrix[epsilon, attack, False],
            _mean(matrix[epsilon, NOBODY, False], "accuracy"),
            _mean(matrix[epsilon, LEFT_OUT, False], "accuracy"),
            _mean(matrix[epsilon, attack, True], "accuracy"),
        )
        for data, matrix in found.items()
        for epsilon in EPSILONS
        for attack in ATTACKS
    ]


def _rows(found: Mapping[str, Matrix], parties: str) -> list[list[str]]:
    """One line for each epsilon and attack, over all sets."""
    lines = []
    for epsilon in EPSILONS:
        for attack in ATTACKS:
            cells = [c for c in _cells(found) if (c.epsilon, c.attack) == (epsilon, attack)]
            runs = [each for cell in cells for each in cell.runs]
            told = [each for cell in cells for each in cell.told]
            means = [
                float(np.mean([getattr(cell, what) for cell in cells]))
                for what in ("accuracy", "honest", "left_out", "plain")
            ]
            lines.append(
                [
                    parties, _privacy(epsilon), attack, f"{len(told)} of {len(runs)}",
                    f"{_mean(told, 'reward'):.3f}", f"{sum(e['first'] for e in told)}",
                    f"{_mean(told, 'lowest'):.3f}", *(f"{100 * each:.1f} %" for each in means),
                ]
            )  # fmt: skip
    return lines


def _targets(found: Mapping[str, Matrix], parties: str) -> list[Figure]:
    cells = _cells(found)
    runs = [each for cell in cells for each in cell.runs]
    told = [each for cell in cells for each in cell.told]
    flips = [
        sum(each["told"] and each["named"] == BAD for each in cell.runs) / len(cell.runs)
        for cell in cells
        if (cell.epsilon, cell.attack) == (8.0, "label flip")
    ]
    share, first = _mean(told, "reward"), _mean(told, "first")
    worst = max(cells, key=lambda cell: _mean(cell.told, "reward"))
    many = sum(each >= 0.9 for each in flips)
    heaviest = max(each["heaviest"] for each in runs)
    return [
        Figure(f"{parties}: runs that tell parties apart", f"of {len(runs)}", len(told), None,
               None),
        Figure(f"{parties}: attackers' share of rewards in these runs", "on average; most for "
               f"{worst.attack}, {worst.data}, {_privacy(worst.epsilon)}: "
               f"{_mean(worst.told, 'reward'):.2f}", share, FAIR, share / FAIR,
               "at most half of the fair share", share <= FAIR / 2),
        Figure(f"{parties}: an attacker is first or second", "of these runs", first, None, None,
               "at most 0.01", first <= 0.01),
        Figure(f"{parties}: lowest reward of an honest party in these runs",
               f"on average; in {sum(e['lowest'] < 0.005 for e in told)} runs below 0.005",
               _mean(told, "lowest"), 1 / PARTIES, _mean(told, "lowest") * PARTIES),
        Figure(f"{parties}: sets on which label flippers are told apart at epsilon 8 in 9 of 10 "
               "runs", f"of {len(flips)}", many, None, None, "at least 2", many >= 2),
        _compared(f"{parties}: within 2 points of the run in which all are honest", cells,
                  [cell.honest - cell.accuracy for cell in cells], 0.02),
        _compared(f"{parties}: within 2 points of the run with attackers left out", cells,
                  [cell.left_out - cell.accuracy for cell in cells], 0.02),
        _compared(f"{parties}: not below plain averaging under the same attack", cells,
                  [cell.plain - cell.accuracy for cell in cells], 0.0),
        Figure(f"{parties}: largest weight of a party in a round", "", heaviest, None, None,
               "at most 0.5", heaviest <= 0.5 + 1e-9),
    ]  # fmt: skip


def _compared(what: str, cells: Sequence[Cell], lost: Sequence[float], most: float) -> Figure:
    good, place = sum(each <= most for each in lost), int(np.argmax(lost))
    worst = cells[place]
    unit = (
        f"of {len(cells)} cells; {100 * float(np.mean(lost)):+.1f} points lost on average, most "
        f"{100 * lost[place]:+.1f} ({worst.attack}, {worst.data}, {_privacy(worst.epsilon)})"
    )
    return Figure(what, unit, good, None, None, "all", good == len(cells))


def _mean(runs: Sequence[Mapping[str, Any]], what: str) -> float:
    return float(np.mean([each[what] for each in runs])) if runs else 0.0


def _privacy(epsilon: float | None) -> str:
    return "no privacy" if epsilon is None else f"epsilon {epsilon:g}"
