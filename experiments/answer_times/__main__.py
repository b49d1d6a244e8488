"""Whether the times of answers tell two neighbouring backgrounds apart, with and without the delay.

    python -m experiments.answer_times

Two services run at once, over backgrounds that differ in one record. The model is as bad as it can
be: it takes some milliseconds longer where that record's value stands. Clients ask both in turn, in
an order that is drawn, and each question is charged: nothing is a stored answer. Both services have
the same delay, stated in the workspace: what each of them measures at its start is about invented
rows, and differs with what else the machine did in that moment.

Somebody who sees one answer's time and guesses which service it came from is right with probability
1/2 + advantage/2. The advantage is the largest distance between the two distributions of times
(Kolmogorov–Smirnov). Its upper bound holds with confidence 99.9 %. It is the distance that was
seen, and for each of the two sqrt(ln(2/a)/2n), with a = 0.05 % (the inequality of Dvoretzky, Kiefer
and Wolfowitz, with the constant of Massart).

"Indistinguishable" is stated at a level: the distance that was seen is no larger than two samples
of one distribution may show (a test at 0.1 %).
"""

from __future__ import annotations

import itertools
import math
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import numpy as np
from benchmarks.harness import Figure, write
from numpy.typing import NDArray
from scipy.stats import ks_2samp
from tests.unit.server.test_running import Process, process

from voile.app.explain import ExplanationSpec
from voile.app.workspace import start_workspace

COUNT, WARM_UP, SEED = 640, 2, 3
CLIENTS = 32
DELAY = "4.0"
LEVEL = 1e-3
RELEASE, DATASET = "approval", "customers v1"
SCHEMA = """\
name = "loans"
[features.income]
kind = "continuous"
bounds = [0.0, 10.0]
[features.debt]
kind = "continuous"
bounds = [0.0, 10.0]
"""
MODEL = "experiments.answer_times.model:SCORE"
PLAIN = [(1 + number % 8, number % 7) for number in range(60)]
SERVE = """
[serve]
delay = {delay}
"""


def workspace(folder: Path, first_record: tuple[float, float], delay: str) -> Path:
    """With one release over a background whose first record is this one."""
    folder.mkdir()
    (folder / "loans.toml").write_text(SCHEMA, encoding="utf-8")
    lines = [f"{income},{debt}" for income, debt in [first_record, *PLAIN[1:]]]
    (folder / "customers.csv").write_text("\n".join(["income,debt", *lines, ""]), encoding="utf-8")
    spec = ExplanationSpec.read(
        {
            "model": MODEL,
            "schema": folder / "loans.toml",
            "model_origin": "public",
            "protect": "background",
            "background": str(folder / "customers.csv"),
            "epsilon": 0.5,
        }
    )
    promise = {"dataset": DATASET, "epsilon": 1_000_000.0, "delta": 1e-5}
    started = start_workspace(spec, promise, name=RELEASE, folder=folder)
    text = started.file.read_text("utf-8") + SERVE.format(delay=delay)
    started.file.write_text(text, encoding="utf-8")
    return folder


@dataclass
class Client:
    """Asks one service on one connection."""

    service: Process
    connection: httpx.Client
    numbers: Any

    def ask(self) -> tuple[float, bool]:
        """Seconds of one answer, and whether it left in its slot."""
        number = next(self.numbers)
        rows = {"income": [number % 1000 / 100], "debt": [number % 7]}
        body = {"release": RELEASE, "rows": rows, "account": DATASET, "redraw": True}
        headers = {
            "Authorization": f"Bearer {self.service.key}",
            "Idempotency-Key": f"question {number}",
        }
        start = time.perf_counter()
        found = self.connection.post("/api/v1/explanations", json=body, headers=headers)
        took = time.perf_counter() - start
        if found.status_code != 200:
            raise RuntimeError(found.text)
        return took, found.headers.get("voile-timing", "slot=1;").startswith("slot=1;")


@dataclass(frozen=True)
class Times:
    """Of both services, in order of the questions.

    Args:
        late: how many answers missed their slot; they are among the times.
    """

    one: NDArray[np.float64]
    other: NDArray[np.float64]
    late: int

    @property
    def distance(self) -> float:
        """The largest between the two distributions."""
        return float(ks_2samp(self.one, self.other).statistic)

    @property
    def advantage(self) -> float:
        """At most so large, with confidence 1 - `LEVEL`."""
        bounds = [math.sqrt(math.log(4 / LEVEL) / (2 * len(e))) for e in (self.one, self.other)]
        return min(1.0, self.distance + sum(bounds))

    @property
    def chance(self) -> float:
        """That two samples of one distribution are as far apart."""
        return float(ks_2samp(self.one, self.other).pvalue)


def measured(folder: Path, delay: str, count: int) -> Times:
    """Of two services that differ in one record of the background."""
    with ExitStack() as stack:
        services = []
        for name, record in (("one", (9.9, 3.0)), ("other", (0.0, 0.0))):
            home = workspace(folder / f"{name} {delay}", record, delay)
            services.append(stack.enter_context(process(home, folder / "log")))
        with ThreadPoolExecutor(CLIENTS) as pool:
            asking = [
                pool.submit(_ask_both, services, number, count // CLIENTS)
                for number in range(CLIENTS)
            ]
            parts = [each.result() for each in asking]
    one, other = (np.concatenate([part[place] for part in parts]) for place in range(2))
    return Times(one, other, sum(part[2] for part in parts))


def _ask_both(
    services: list[Process], client: int, count: int
) -> tuple[list[float], list[float], int]:
    """Times of one client, and how many answers missed their slot."""
    choose, numbers = np.random.default_rng([SEED, client]), itertools.count(client, CLIENTS)
    found: tuple[list[float], list[float]] = ([], [])
    late = 0
    with ExitStack() as stack:
        asking = [
            Client(each, stack.enter_context(httpx.Client(base_url=each.url, timeout=30)), numbers)
            for each in services
        ]
        for turn in range(WARM_UP + count):
            for place in choose.permutation(2):
                took, in_time = asking[place].ask()
                if turn >= WARM_UP:
                    found[place].append(took)
                    late += not in_time
    return *found, late


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="voile-times-") as name:
        folder = Path(name)
        on, off = measured(folder, DELAY, COUNT), measured(folder, "false", COUNT)
    figures = [*_figures("delay on", on), *_figures("delay off", off)]
    figures += [
        Figure(
            "delay on: chance of such a distance by accident",
            "",
            on.chance,
            None,
            None,
            f"at least {LEVEL:g}: indistinguishable at that level",
            on.chance >= LEVEL,
        ),
        Figure(
            "delay off: chance of such a distance by accident (the check sees it)",
            "",
            off.chance,
            None,
            None,
            f"below {LEVEL:g}",
            off.chance < LEVEL,
        ),
    ]
    write(
        "answer_times",
        "the same two services with delay = false",
        figures,
        seed=SEED,
        command="python -m experiments.answer_times",
        answers_of_each=COUNT,
        delay=DELAY,
        load="shared with other work",
    )


def _figures(name: str, times: Times) -> list[Figure]:
    slow, null = (1e3 * float(np.median(each)) for each in (times.one, times.other))
    return [
        Figure(f"{name}: p50, slow record and null record", "ms", slow, null, slow / null),
        Figure(f"{name}: distance of the two distributions", "", times.distance, None, None),
        Figure(f"{name}: advantage of one look, at most (99.9 %)", "", times.advantage, None, None),
        Figure(f"{name}: answers that missed their slot", "", times.late, None, None),
    ]


if __name__ == "__main__":
    main()
