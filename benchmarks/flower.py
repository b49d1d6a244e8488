"""What a round across processes costs, beside a bare Flower app that does the same arithmetic.

Both have a SuperLink with TLS and node authentication and as many nodes, and are measured in turn
in the same run, in CPU seconds of all processes: nodes that wait for work sleep, so wall-clock
figures would measure sleeps. Start-up is not counted. Bytes of one message, and what a
SuperLink needs for it, are the constants of the estimate in the documentation.

Then a simulation of 10, 50 and 200 clients on Flower's engine, beside threads in this process.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from benchmarks.flower_parts.app.bare.arithmetic import start
from benchmarks.flower_parts.node import SameArithmetic
from benchmarks.harness import ROOT, Figure, compare, write
from voile.app.testbed import (
    StartedProcess,
    SuperLinkFiles,
    free_port,
    installed,
)
from voile.core.randomness import Seeded
from voile.federation import Instruction, Rounds, Stage, Update
from voile.federation.flower import FlowerTransport, node_key, public_bytes, register_node
from voile.federation.flower.superlink import SuperLinkRun
from voile.federation.responder import NodeSeal, SignedByServer
from voile.federation.wire import to_bytes

NODES, ROUNDS, TURNS = 2, 3, 2
PATIENCE = 300.0
TICKS = os.sysconf("SC_CLK_TCK")


def run() -> None:
    measured = [(ours(), peer()) for _ in range(TURNS)]
    mine = min(each[0]["all"] for each in measured)
    bare = min(each[1] for each in measured)
    best = min((each[0] for each in measured), key=lambda each: each["all"])
    question, answer = sizes()
    constants = [
        ("CPU of the SuperLink, one message and its reply", "s", best["superlink"]),
        ("CPU of a node, one message and its reply", "s", best["node"]),
        ("CPU of the server, one message and its reply", "s", best["server"]),
        ("a message beside its arrays", "bytes", question),
        ("a reply beside its arrays", "bytes", answer),
        ("memory of the SuperLink", "MB", best["memory"]),
    ]
    figures = [
        compare(f"CPU of all processes, a round of {NODES} nodes", "s", mine, bare, at_most=1.15),
        *(Figure(what, unit, value, None, None) for what, unit, value in constants),
        *simulations(),
    ]
    write("flower", "a bare Flower app; threads", figures, unit="CPU seconds of all processes")


# --- voile ------------------------------------------------------------------------------------


def ours() -> dict[str, float]:
    with tempfile.TemporaryDirectory(prefix="voile-bench-") as name, deployed(Path(name)) as made:
        files, link, nodes, seal = made
        stage = Stage("work", SameArithmetic(), 1 + ROUNDS, len(nodes), 1 + ROUNDS)
        with SuperLinkRun(files.place, files.secret.read_bytes()) as courier:
            marks: list[tuple[float, ...]] = []

            def mark() -> None:
                marks.append((tree_cpu([link]), tree_cpu(nodes), time.process_time()))

            rounds = Rounds(
                FlowerTransport(courier, seal), dict.fromkeys(sorted(seal.identities), 40),
                source=Seeded(1), progress=lambda seen: mark() if seen.done else None,
            )  # fmt: skip
            rounds.run(stage, {"w": start()})
        first, last = marks[0], marks[-1]
        spent = [(b - a) / ROUNDS for a, b in zip(first, last, strict=True)]
        resident = memory_of(link)
    return {
        "all": sum(spent),
        "superlink": spent[0] / NODES,
        "node": spent[1] / NODES,
        "server": spent[2] / NODES,
        "memory": resident,
    }


@contextmanager
def deployed(
    folder: Path,
) -> Iterator[tuple[SuperLinkFiles, StartedProcess, list[StartedProcess], SignedByServer]]:
    files = SuperLinkFiles.make(folder / "superlink")
    link, nodes = files.start(), list[StartedProcess]()
    server, keys = Ed25519PrivateKey.generate(), dict[str, Ed25519PrivateKey]()
    try:
        for number in range(NODES):
            name = f"node-{number}"
            keys[name], home = Ed25519PrivateKey.generate(), folder / name
            home.mkdir()
            register_node(files.place, public_bytes(node_key(home / "flower.key")), name)
            settings = {
                "name": name, "folder": str(home), "address": files.place.address,
                "authority": str(files.place.root_certificates),
                "key": keys[name].private_bytes_raw().hex(),
                "server": server.public_key().public_bytes_raw().hex(),
            }  # fmt: skip
            (home / "settings.json").write_text(json.dumps(settings))
            command = [
                sys.executable, "-m", "benchmarks.flower_parts.node", str(home / "settings.json")
            ]  # fmt: skip
            env = {"PYTHONPATH": f"{ROOT / 'src'}:{ROOT}", "OMP_NUM_THREADS": "1"}
            nodes.append(StartedProcess.start(command, home / "output.log", env))
        public = {name: key.public_key().public_bytes_raw() for name, key in keys.items()}
        yield files, link, nodes, SignedByServer("", lambda t: server.sign(t.encode()), public)
    finally:
        for process in (*nodes, link):
            process.kill()


def sizes() -> tuple[float, float]:
    """Bytes of a sealed message and of its reply, without their arrays."""
    key, weights = Ed25519PrivateKey.generate(), start()
    sign = lambda text: key.sign(text.encode())  # noqa: E731
    request = SignedByServer("ab" * 32, sign, {}).seal(
        "hospital", to_bytes(Instruction("black box", 1, {"w": weights}, {}, "ab" * 32))
    )
    update = Update("hospital", "black box", 1, {"w": weights}, "{}", agreement="ab" * 32)
    reply = NodeSeal("hospital", "ab" * 32, b"", sign).seal(request, to_bytes(update))
    return len(request) - weights.nbytes, len(reply) - weights.nbytes


# --- Flower alone -----------------------------------------------------------------------------


def peer() -> float:
    """CPU seconds of a round of the bare app: everything that its processes start is counted."""
    from flwr.cli.build import build_fab_from_disk
    from flwr.common.serde import fab_to_proto, user_config_to_proto
    from flwr.proto.control_pb2 import StartRunRequest
    from flwr.supercore.control import ControlHttpClient
    from flwr.supercore.fab import Fab

    with tempfile.TemporaryDirectory(prefix="voile-bench-") as name, bare(Path(name)) as made:
        files, processes = made
        content = build_fab_from_disk(ROOT / "benchmarks" / "flower_parts" / "app")
        settings: dict[str, bool | float | int | str] = {
            "rounds": 1 + ROUNDS, "nodes": NODES, "marks": name,
        }  # fmt: skip
        request = StartRunRequest(
            fab=fab_to_proto(Fab("", content, {})), override_config=user_config_to_proto(settings)
        )
        with files.place.client(ControlHttpClient, []) as client:
            client.StartRun(request)
        wait_for(lambda: (Path(name) / "round-1").exists())
        first = tree_cpu(processes)
        wait_for(lambda: (Path(name) / f"round-{1 + ROUNDS}").exists())
        return (tree_cpu(processes) - first) / ROUNDS


@contextmanager
def bare(folder: Path) -> Iterator[tuple[SuperLinkFiles, list[StartedProcess]]]:
    files = SuperLinkFiles.make(folder / "superlink")
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    env = {**files.env, "PATH": path, "OMP_NUM_THREADS": "1"}
    options = [
        "--host", "127.0.0.1", "--port", str(files.port), "--enable-supernode-auth",
        "--ssl-certfile", str(files.certificates.certificate),
        "--ssl-keyfile", str(files.certificates.key),
        "--ssl-ca-certfile", str(files.certificates.authority),
        "--disable-runtime-dependency-installation",
    ]  # fmt: skip
    link = StartedProcess.start(
        [installed("flower-superlink"), *options], files.folder / "superlink.log", env
    )
    processes = [link]
    try:
        from voile.federation.flower.superlink import wait_until_there

        wait_until_there(files.place, PATIENCE)
        for number in range(NODES):
            key = folder / f"node-{number}.key"
            register_node(files.place, public_bytes(node_key(key)), f"node-{number}")
            command = [
                installed("flower-supernode"), "--superlink", files.place.address,
                "--root-certificates", str(files.certificates.authority),
                "--auth-supernode-private-key", str(key), "--host", "127.0.0.1",
                "--port", str(free_port()),
            ]  # fmt: skip
            processes.append(StartedProcess.start(command, folder / f"node-{number}.log", env))
        yield files, processes
    finally:
        for pid in reversed(tree([each.pid for each in processes])):
            subprocess.run(["kill", "-9", str(pid)], check=False, capture_output=True)
        for process in processes:
            process.kill()


def wait_for(there: Callable[[], bool]) -> None:
    until = time.monotonic() + PATIENCE
    while not there():
        if time.monotonic() > until:
            raise TimeoutError("the bare app has not come so far")
        time.sleep(0.05)


# --- CPU of processes -------------------------------------------------------------------------


def tree(roots: list[int]) -> list[int]:
    """These processes and all below them."""
    parents: dict[int, int] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        parents[int(path.parent.name)] = int(fields[1])
    found = list(roots)
    for pid in found:
        found += [child for child, parent in parents.items() if parent == pid]
    return found


def tree_cpu(roots: list[StartedProcess]) -> float:
    """CPU seconds so far, of them and of children that have ended and were waited for."""
    total = 0
    for pid in tree([each.pid for each in roots]):
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        total += sum(map(int, fields[11:15]))
    return total / TICKS


def memory_of(process: StartedProcess) -> float:
    """Resident megabytes."""
    pages = int(Path(f"/proc/{process.pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


# --- simulation -------------------------------------------------------------------------------


def simulations() -> list[Figure]:
    """In a process of its own, which the engine leaves in disorder."""
    found = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "benchmarks.flower_parts.simulated"],
        env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}", "OMP_NUM_THREADS": "1"},
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    lines = json.loads(found.stdout.strip().splitlines()[-1])
    return [
        compare(f"a round of {clients} clients, simulation and threads", "s", simulated, threads)
        for clients, simulated, threads in lines
    ]
