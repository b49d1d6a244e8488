"""Run every fault loop to its full count, or those whose name holds a word of the command line.

    python -m experiments.fault_loops [WORD ...]

Each step runs in a folder of its own. A violation is printed and counted, and the next step goes
on. There are three result files, `fault_loops`, `command_loops` and `service_loops` (all loops of
the last two are found by the words `commands` and `service`); each is written only when all of its
loops have run.
"""

from __future__ import annotations

import sys
import tempfile
import time
import traceback
from pathlib import Path

from benchmarks.harness import Figure, write

from experiments.fault_loops.loops import Loop, command_loops, loops, postgres, service_loops


def run(loop: Loop) -> list[Figure]:
    """Rounds, answers that were checked, and steps that found a violation."""
    answers = violations = done = 0
    start = time.monotonic()
    while done < loop.rounds:
        rounds = min(loop.step, loop.rounds - done)
        try:
            with tempfile.TemporaryDirectory(prefix="voile-loop-") as folder:
                answers += loop.run(Path(folder), rounds)
        except Exception:
            traceback.print_exc()
            violations += 1
        done += rounds
        seconds = time.monotonic() - start
        print(f"{loop.name}: {done} of {loop.rounds} rounds, {answers} answers, {seconds:.0f} s")
    return [
        Figure(f"{loop.name}: rounds", "", done, None, None),
        Figure(f"{loop.name}: answers checked", "", answers, None, None),
        Figure(f"{loop.name}: violations", "", violations, None, None, "none", not violations),
    ]


def main(words: list[str]) -> int:
    sound = []
    with postgres() as new_schema:
        files = {
            "fault_loops": loops(new_schema),
            "command_loops": command_loops(),
            "service_loops": service_loops(new_schema),
        }
        for name, every in files.items():
            chosen = [loop for loop in every if all(word in loop.name for word in words)]
            figures = [figure for loop in chosen for figure in run(loop)]
            sound += [figure.met is not False for figure in figures]
            if len(chosen) == len(every):
                write(
                    name,
                    "answers that left, against balances, journal, stored answers and log",
                    figures,
                    command=" ".join(["python -m experiments.fault_loops", *words]),
                )
    return 0 if sound and all(sound) else 1


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
