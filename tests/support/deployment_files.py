"""A compose file, systemd units and a proxy of a real deployment, as a testbed would run them.

They are checked for their syntax, and compared with what the documentation shows; nobody has run
them on the reader's machines.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from voile.app.testbed import superlink_options
from voile.federation.flower import NODE_PATHS, QUIET, VERSION

PORT: Final = 9092
"""Where members reach the proxy."""
OPERATOR_PORT: Final = 9091
"""Where the SuperLink is, for its operator on the same machine and for the proxy."""
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
        "superlink-proxy.conf": _proxy(),
        "voile-superlink.service": _unit(
            "A Flower SuperLink for voile",
            ["flower-superlink", *_options("127.0.0.1")],
            _environment(),
        ),
        "voile-node.service": _unit(
            "A party of a voile federation", ["voile", "node", f"{_HOME}/node.toml"], {}
        ),
    }


def _options(host: str) -> list[str]:
    return superlink_options(
        host,
        OPERATOR_PORT,
        certificate=f"{_HOME}/server.crt",
        key=f"{_HOME}/server.key",
        authority=f"{_HOME}/ca.crt",
        secret=f"{_HOME}/secret",
        database=f"{_HOME}/superlink.db",
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
    options = ", ".join(f'"{each}"' for each in ["flower-superlink", *_options("0.0.0.0")])
    return (
        f"# An image with voile[federated] (Flower {VERSION}) is called voile:local here.\n"
        "services:\n"
        "  superlink:  # on the server's machine: docker compose --profile server up\n"
        '    profiles: ["server"]\n'
        "    image: voile:local\n"
        f"    command: [{options}]\n"
        f'    ports: ["127.0.0.1:{OPERATOR_PORT}:{OPERATOR_PORT}"]'
        "  # for the operator, and for nginx (superlink-proxy.conf)\n"
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


def _proxy() -> str:
    """The path that is asked for is fixed in each line: no spelling of it reaches another call."""
    superlink = f"https://127.0.0.1:{OPERATOR_PORT}"
    calls = "".join(
        f"    location = {path} {{ proxy_pass {superlink}{path}; }}\n" for path in NODE_PATHS
    )
    return (
        "# nginx between members and the SuperLink, on the SuperLink's machine. It belongs into\n"
        "# /etc/nginx/conf.d/. Members reach the calls of their nodes. Nodes are registered, and\n"
        f"# runs begun, on this machine alone: its operator speaks to 127.0.0.1:{OPERATOR_PORT}.\n"
        "server {\n"
        f"    listen {PORT} ssl;\n"
        f"    ssl_certificate {_HOME}/server.crt;\n"
        f"    ssl_certificate_key {_HOME}/server.key;\n"
        "    ssl_protocols TLSv1.2 TLSv1.3;\n"
        "    client_max_body_size 1g;  # an update is one message\n"
        "    proxy_http_version 1.1;\n"
        f"    proxy_ssl_trusted_certificate {_HOME}/ca.crt;\n"
        "    proxy_ssl_name localhost;  # server.crt names it too\n"
        "    proxy_ssl_verify on;\n\n"
        f"{calls}\n"
        "    location / { return 403; }\n"
        "}\n"
    )
