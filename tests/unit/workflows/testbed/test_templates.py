"""The compose file and the units that the documentation shows: generated, and of sound syntax."""

from __future__ import annotations

import configparser
import shlex
from pathlib import Path

import pytest
import yaml  # type: ignore[import-untyped]

from voile.workflows.testbed import deployment_files

DOCS = Path(__file__).parents[4] / "docs" / "deployment"
FILES = deployment_files()


def test_the_documentation_shows_what_is_generated() -> None:
    assert {path.name: path.read_text() for path in DOCS.iterdir()} == FILES


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
