"""A compose file and systemd units of a real deployment, by the commands that a testbed runs.

They are checked for their syntax, and compared with what the documentation shows; nobody has run
them on the reader's machines.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from voile.federation.flower import QUIET, VERSION
from voile.workflows.testbed.superlink_process import superlink_options

PORT: Final = 9092
_HOME: Final = "/var/lib/voile"
_HARDENED: Final = """\
NoNewPrivileges=true
ProtectSystem=strict
ProtectHome=true
PrivateTmp=true
"""


def deployment_files() -> dict[str, str]:
    """By the name of the file."""
    return {
        "compose.yaml": _compose(),
        "voile-superlink.service": _unit(
            "A Flower SuperLink for voile", ["flower-superlink", *_options(_HOME)], _environment()
        ),
        "voile-node.service": _unit(
            "A party of a voile federation", ["voile", "node", f"{_HOME}/node.toml"], {}
        ),
    }


def _options(home: str) -> list[str]:
    return superlink_options(
        "0.0.0.0",
        PORT,
        certificate=f"{home}/server.crt",
        key=f"{home}/server.key",
        authority=f"{home}/ca.crt",
        secret=f"{home}/secret",
        database=f"{home}/superlink.db",
    )


def _environment() -> Mapping[str, str]:
    return {**QUIET, "FLWR_HOME": f"{_HOME}/flwr-home"}


def _unit(description: str, command: list[str], environment: Mapping[str, str]) -> str:
    settings = "".join(f"Environment={name}={value}\n" for name, value in environment.items())
    return (
        f"[Unit]\nDescription={description}\nWants=network-online.target\n"
        "After=network-online.target\n\n"
        f"[Service]\nUser=voile\nUMask=0077\nWorkingDirectory={_HOME}\n{settings}"
        f"ExecStart=/opt/voile/bin/{command[0]} {' '.join(command[1:])}\n"
        f"Restart=on-failure\nRestartSec=10\n{_HARDENED}ReadWritePaths={_HOME}\n\n"
        "[Install]\nWantedBy=multi-user.target\n"
    )


def _compose() -> str:
    """Two profiles: the server's machine, and that of a party."""
    environment = "".join(f'      {n}: "{v}"\n' for n, v in sorted(_environment().items()))
    options = ", ".join(f'"{each}"' for each in ["flower-superlink", *_options(_HOME)])
    return (
        f"# An image with voile[federated] (Flower {VERSION}) is called voile:local here.\n"
        "services:\n"
        "  superlink:  # on the server's machine: docker compose --profile server up\n"
        '    profiles: ["server"]\n'
        "    image: voile:local\n"
        f"    command: [{options}]\n"
        f'    ports: ["{PORT}:{PORT}"]\n'
        f"    environment:\n{environment}"
        f'    volumes: ["./superlink:{_HOME}"]\n'
        "    restart: unless-stopped\n"
        "  node:  # on a party's machine: docker compose --profile party up\n"
        '    profiles: ["party"]\n'
        "    image: voile:local\n"
        f'    command: ["voile", "node", "{_HOME}/node.toml"]\n'
        f'    volumes: ["./node:{_HOME}"]\n'
        "    restart: unless-stopped\n"
    )
