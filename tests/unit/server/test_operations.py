"""What whoever runs the service has: its description, figures, and a witness beside it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.unit.server.examples import MORE, House, home, serving
from tools import openapi

from voile.core.errors import InvalidInput, MissingDependency
from voile.records.access import Duty
from voile.records.audit_log import SigningKey
from voile.records.audit_log.log import AuditLog
from voile.records.audit_log.notes import Checkpoint, KeyKind, Note
from voile.records.audit_log.witness import AddCheckpointRequest


def test_the_description_that_is_checked_in_is_that_of_the_service(house: House) -> None:
    """If this fails, run `python -m tools.openapi` and look at what has changed."""
    assert openapi.FILE.read_text() == openapi.text()
    served = house.ask("GET", "/openapi.json", house.key(Duty.OPERATE)).json()
    assert served == json.loads(openapi.text())


def test_every_operation_says_what_it_does_and_who_may(house: House) -> None:
    described = json.loads(openapi.text())
    for path, methods in described["paths"].items():
        for operation in methods.values():
            assert operation["description"], path
            assert operation["security"] in ([], [{"bearer": []}]), path
    page = house.ask("GET", "/docs", house.key(Duty.OPERATE))
    assert "/api/v1/explanations/batch" in page.text
    assert "<script" not in page.text


def test_figures_name_routes_and_no_addresses(house: House) -> None:
    key = house.key()
    house.explain(key)
    house.ask("GET", "/api/v1/receipts/12345", key)
    told = house.ask("GET", "/metrics", key).text
    assert 'route="/api/v1/receipts/{record}",status="404"' in told
    assert "12345" not in told
    assert "voile_unsigned_records" in told


@pytest.fixture
def witnessed(tmp_path: Path) -> tuple[Path, SigningKey]:
    """A workspace whose service is a witness for its own log: one log is as good as another."""
    table = '[serve.witness]\ndatabase = "w.db"\nkey = "w.key"\npolicies = ["audit-policy.toml"]\n'
    folder = home(tmp_path / "home", MORE + table)
    key = SigningKey.generate("w1.example/voile", KeyKind.WITNESS)
    key.save(folder / "w.key")
    return folder, key


def test_a_witness_answers_as_a_route(witnessed: tuple[Path, SigningKey]) -> None:
    folder, key = witnessed
    with serving(folder) as house:
        vault = house.workspace.vault
        log: AuditLog = vault.log
        head = vault.storage.read_snapshot(log.head)
        text = Checkpoint(log.origin, head.size, head.root).text
        signed = Note(text, (SigningKey.load(vault.place.signing_key).sign(text),))
        body = bytes(AddCheckpointRequest(0, (), bytes(signed)))
        found = house.ask("POST", "/witness/add-checkpoint", content=body)
        assert found.status_code == 200
        assert Note.parse(bytes(signed) + found.content).signers((key.verifier,))
        again = house.ask("POST", "/witness/add-checkpoint", content=body)
        assert (again.status_code, again.text) == (409, f"{head.size}\n")
        assert again.headers["content-type"] == "text/x.tlog.size"
        wrong = house.ask("POST", "/witness/add-checkpoint", content=b"nothing")
        assert wrong.status_code == 400


def test_without_one_there_is_none(house: House) -> None:
    assert house.ask("POST", "/witness/add-checkpoint", content=b"x").status_code == 404


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("anonymous = true", "anonymous = 1"), "expected true or false"),
        (('account = "people v1"', 'account = "people v1"\nanonymous = true'), "budget"),
        (("delay = false", "delay = 0.01"), "delay"),
        (("gather = 0.001", 'certificate = "c.pem"'), "belong together"),
        (("gather = 0.001", "gathering = 1"), "gathering"),
    ],
)
def test_settings_that_cannot_be_are_told(
    tmp_path: Path, change: tuple[str, str], said: str
) -> None:
    with pytest.raises(InvalidInput, match=said), serving(home(tmp_path, MORE.replace(*change))):
        pass


def test_a_package_that_is_missing_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from voile.app.calls import handle
    from voile.app.commands.serve import Serve

    monkeypatch.setitem(__import__("sys").modules, "uvicorn", None)
    with pytest.raises((MissingDependency, ModuleNotFoundError), match="uvicorn"):
        handle(Serve(workspace=tmp_path))


FIGURE = re.compile(r"voile_\w+")
DEPLOYMENT = openapi.FILE.parent / "deployment"


def test_the_dashboard_shows_figures_that_there_are(house: House) -> None:
    house.explain(house.key())
    told = house.ask("GET", "/metrics", house.key()).text
    panels = json.loads((DEPLOYMENT / "grafana.json").read_text())["panels"]
    wanted = {name for p in panels for t in p["targets"] for name in FIGURE.findall(t["expr"])}
    assert len(wanted) >= 6
    for name in wanted:
        assert f"# TYPE {name}" in told or f"\n{name}" in told or name in told, name


def checker(name: str) -> str:
    """A linter that comes with the environment; it needs no engine."""
    found = Path(sys.executable).with_name(name)
    if not found.exists():
        pytest.skip(f"{name} is not installed")
    return str(found)


def test_a_linter_finds_nothing_in_the_container_file() -> None:
    files = sorted(DEPLOYMENT.glob("*.Containerfile"))
    assert files
    command = [checker("hadolint"), "--failure-threshold", "style", *map(str, files)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("name", ["service-compose.yaml", "compose.yaml"])
def test_compose_files_are_what_their_specification_says(name: str, tmp_path: Path) -> None:
    command = [checker("check-jsonschema"), "--builtin-schema", "vendor.compose-spec"]

    def check(path: Path) -> int:
        return subprocess.run([*command, str(path)], capture_output=True, check=False).returncode

    assert check(DEPLOYMENT / name) == 0
    wrong = tmp_path / name
    wrong.write_text((DEPLOYMENT / name).read_text().replace("image:", "imago:"))
    assert check(wrong) != 0


def test_the_container_runs_the_service_as_nobody_in_particular() -> None:
    lines = (DEPLOYMENT / "service.Containerfile").read_text().splitlines()
    commands = [line.split()[0] for line in lines if line and line[0].isupper()]
    assert commands[0] == "FROM"
    assert commands.index("USER") < commands.index("ENTRYPOINT")
    assert not any(line.startswith(("USER root", "USER 0")) for line in lines)
    yaml = pytest.importorskip("yaml")
    composed = yaml.safe_load((DEPLOYMENT / "service-compose.yaml").read_text())
    service = composed["services"]["service"]
    assert service["read_only"]
    assert service["cap_drop"] == ["ALL"]
    assert "password" not in json.dumps(service["environment"]).lower().replace("passfile", "")
    for each in composed["services"].values():
        assert set(each.get("secrets", ())) <= set(composed["secrets"])
