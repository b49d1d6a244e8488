"""The federation of `toy_node`: its stages, and its processes, which are ended whatever happens."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tests.deployment.toy_node import ToySettings, public_from, signer_from
from tests.unit.federation.toys import stage
from voile.app.testbed import StartedProcess, SuperLinkFiles
from voile.federation import SecureSum, Stage
from voile.federation.flower import FlowerTransport, node_key, public_bytes, register_node
from voile.federation.flower.superlink import SuperLinkRun
from voile.federation.responder import SignedByServer
from voile.federation.secure_aggregation import HonestButCurious

ROOT = Path(__file__).parents[2]
AGREED = "5a" * 32
PATIENCE = 60.0


def plain_toy_stage(clients: int) -> Stage:
    return stage(rounds=4, clients_per_round=clients, participations=4)


def secret_toy_stage(keys: Mapping[str, str]) -> Stage:
    """One round; with one colluder the fewest parties of which one may fall out are four."""
    public = {name: public_from(key) for name, key in keys.items()}
    sizes = dict.fromkeys(sorted(set(keys) - {"server"}), 40)
    agreed = SecureSum(HonestButCurious(), public, sizes)
    return stage(rounds=1, clients_per_round=len(sizes), participations=1, protocol=agreed)


def toy_settings(folder: Path, name: str, keys: Mapping[str, str], **more: Any) -> ToySettings:
    return ToySettings(name, str(folder / name), AGREED, dict(keys), **more)


def new_key() -> str:
    return Ed25519PrivateKey.generate().private_bytes_raw().hex()


@dataclass(eq=False)
class ToyDeployment:
    """A SuperLink that can be restarted, and toy nodes."""

    files: SuperLinkFiles
    folder: Path
    link: StartedProcess
    nodes: dict[str, StartedProcess] = field(default_factory=dict)

    def restart(self) -> None:
        """The SuperLink is gone without a word, and comes back with its database."""
        self.link.kill()
        self.link = self.files.start()

    def start_nodes(self, keys: Mapping[str, str], **settings: Mapping[str, Any]) -> None:
        for name in sorted(set(keys) - {"server"}):
            made = toy_settings(self.folder, name, keys, **settings.get(name, {}))
            made = replace(
                made,
                address=self.files.place.address,
                authority=str(self.files.place.root_certificates),
            )
            folder = Path(made.folder)
            folder.mkdir(parents=True)
            key = public_bytes(node_key(folder / "flower.key"))
            register_node(self.files.place, key, name)
            (folder / "settings.json").write_text(made.dumps())
            command = [
                sys.executable, "-m", "tests.deployment.toy_node", str(folder / "settings.json")
            ]  # fmt: skip
            env = {"PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}
            self.nodes[name] = StartedProcess.start(command, folder / "output.log", env)

    @contextmanager
    def transport(
        self, keys: Mapping[str, str], say: Callable[[str], None] = lambda _: None
    ) -> Iterator[FlowerTransport]:
        public = {name: public_from(key) for name, key in keys.items()}
        seal = SignedByServer(AGREED, signer_from(keys["server"]), public)
        with SuperLinkRun(self.files.place, self.files.secret.read_bytes()) as run:
            yield FlowerTransport(run, seal, PATIENCE, say)

    def outputs(self) -> str:
        """What nodes said before they failed a test."""
        found = sorted(self.folder.glob("*/output.log"))
        return "\n".join(f"{path.parent.name}: {path.read_text()[-2000:]}" for path in found)


@contextmanager
def toy_deployment(folder: Path) -> Iterator[ToyDeployment]:
    files = SuperLinkFiles.make(folder / "superlink")
    made = ToyDeployment(files, folder / "nodes", files.start())
    try:
        yield made
    finally:
        for process in (*made.nodes.values(), made.link):
            process.kill()
