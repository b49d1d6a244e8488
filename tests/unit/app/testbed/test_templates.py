"""The files of a deployment that the documentation shows: generated, and of sound syntax."""

from __future__ import annotations

import configparser
import re
import shlex
from pathlib import Path

import pytest
import yaml  # type: ignore[import-untyped]
from tests.support.deployment_files import deployment_files

from voile.federation.flower import NODE_PATHS

DOCS = Path(__file__).parents[4] / "docs" / "deployment"
FILES = deployment_files()


def test_the_documentation_shows_what_is_generated() -> None:
    assert {name: (DOCS / name).read_text() for name in FILES} == FILES


def test_the_compose_file_is_one() -> None:
    content = yaml.safe_load(FILES["compose.yaml"])
    assert set(content["services"]) == {"superlink", "node"}
    for service in content["services"].values():
        assert all(isinstance(each, str) for each in service["command"])
        assert set(service) <= {
            "profiles", "image", "command", "ports", "environment", "volumes", "restart"
        }  # fmt: skip
    assert content["services"]["superlink"]["environment"]["FLWR_TELEMETRY_ENABLED"] == "0"


@pytest.mark.parametrize("name", ["voile-superlink.service", "voile-node.service"])
def test_units_are_units(name: str) -> None:
    unit = configparser.RawConfigParser(strict=False)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read_string(FILES[name])
    assert unit.sections() == ["Unit", "Service", "Install"]
    assert shlex.split(unit["Service"]["ExecStart"])[0].startswith("/opt/voile/bin/")


def test_the_superlink_runs_with_tls_authentication_and_no_apps() -> None:
    for name in ("compose.yaml", "voile-superlink.service"):
        for option in (
            "--ssl-certfile", "--enable-supernode-auth", "--superexec-auth-secret-file",
            "--disable-runtime-dependency-installation", "--database",
        ):  # fmt: skip
            assert option in FILES[name]
        assert "--insecure" not in FILES[name]


def test_the_proxy_lets_through_what_nodes_ask_for_and_nothing_else() -> None:
    proxy = FILES["superlink-proxy.conf"]
    places = re.findall(r"location (.*?) \{ (.*?); \}", proxy)
    # Each path is passed on as it stands in the file, and not as somebody has spelt it.
    passed = [(f"= {path}", f"proxy_pass https://127.0.0.1:9091{path}") for path in NODE_PATHS]
    assert places == [*passed, ("/", "return 403")]
    assert proxy.count("location") == len(places)
    assert proxy.count("proxy_pass") == len(passed)
    assert proxy.count("server {") == 1


def test_only_the_proxy_is_reached_from_elsewhere() -> None:
    assert "--host 127.0.0.1 --port 9091 " in FILES["voile-superlink.service"]
    superlink = yaml.safe_load(FILES["compose.yaml"])["services"]["superlink"]
    assert superlink["ports"] == ["127.0.0.1:9091:9091"]
    assert "listen 9092 ssl;" in FILES["superlink-proxy.conf"]
