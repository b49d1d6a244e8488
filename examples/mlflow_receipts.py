"""An explanation from a service goes into MLflow, with the receipt that proves it.

A hospital's service explains a patient's risk against its private records. A programme of another
team asks it, and keeps in MLflow what was answered: the explanation, its guarantee, the receipt,
and whose signatures count. A year later somebody takes the files out of MLflow and checks offline
that exactly this was released, under exactly this guarantee. Only what was released goes there:
a tracking server is read by many, and holds no rows of the hospital.

    pip install 'voile[serve]' mlflow-skinny
    python -m examples.mlflow_receipts

Without MLFLOW_TRACKING_URI runs are kept in a folder. The package reports its use to its makers
unless it is told not to, which is done here.
"""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import voile
from voile.app.calls import handle
from voile.app.commands.serve import AddKey
from voile.app.explain import ExplanationSpec, ReleasedExplanation
from voile.app.workspace import start_workspace
from voile.datasets import clinic_federation

RELEASE: Final = "readmission"
ACCOUNT: Final = "harbour 2026"
CLINIC = clinic_federation(200, seed=1)
RISK = CLINIC.risk
"""A published rule: it was made without this hospital's records."""
_SERVICE: Final = """
[serve]
checkpoint_seconds = 0.5  # how soon there is a receipt
"""
_EXPLANATION, _RECEIPT, _POLICY = "why.voile", "why.tlog-proof", "audit-policy.toml"


@dataclass(frozen=True)
class Story:
    """What happened.

    Args:
        run: the run in MLflow.
        verified: whether what was taken out of MLflow was what the hospital's log says.
    """

    explained: ReleasedExplanation
    run: str
    logged: tuple[str, ...]
    verified: bool


def main(folder: Path) -> Story:
    """The whole story; everything it writes goes into `folder`."""
    home = hospital(folder / "hospital")
    policy = home / _POLICY  # handed over once, by somebody who is trusted
    with service(home) as (url, key), voile.Client(url, key, policy=policy) as client:
        explained = client.explain(RELEASE, patient(), account=ACCOUNT, purpose="discharge talk")
        (receipt,) = client.receipts(explained)  # waits for a signature, and verifies
    run = log_explanation(explained, receipt, policy, folder)
    logged, verified = checked(run, folder)
    return Story(explained, run, logged, verified)


# --- The hospital: a workspace and its service ----------------------------------------------------


def hospital(folder: Path) -> Path:
    """A workspace with one charged release."""
    folder.mkdir(parents=True)
    schema, records = CLINIC.schema, CLINIC.hospitals["harbour"].rows
    (folder / "clinic.toml").write_text(schema.dumps())
    with (folder / "records.csv").open("w", newline="") as file:
        lines = csv.writer(file)
        lines.writerow(schema.feature_names)
        lines.writerows(zip(*schema.table(records).values(), strict=True))
    stated = {
        "model": "examples.mlflow_receipts:RISK",
        "model_origin": "public",
        "output_range": (0, 1),
        "schema": folder / "clinic.toml",
        "protect": "background",
        "background": str(folder / "records.csv"),
        "epsilon": 0.5,
    }
    spec = ExplanationSpec.read(stated)
    promise = {"dataset": ACCOUNT, "epsilon": 3.0, "delta": 1e-5}
    started = start_workspace(spec, promise, name=RELEASE, folder=folder)
    started.file.write_text(started.file.read_text() + _SERVICE)
    return folder


@contextmanager
def service(home: Path) -> Iterator[tuple[str, str]]:
    """`voile serve` on a free port, and a key for it."""
    key = handle(
        AddKey(workspace=home, holder="quality team", duties=("explain",), accounts=(ACCOUNT,))
    ).text
    command = [sys.executable, "-m", "voile.cli", "serve", str(home), "--port", "0", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as running:
        assert running.stdout is not None
        said = b"".join(iter(running.stdout.readline, b"}\n"))
        try:
            yield json.loads(said + b"}")["url"], key
        finally:
            running.send_signal(signal.SIGTERM)


def patient() -> dict[str, list[Any]]:
    """Somebody from the public reference rows."""
    table = CLINIC.schema.table(CLINIC.reference[:1])
    return {name: column.tolist() for name, column in table.items()}


# --- The other team: MLflow -----------------------------------------------------------------------


def log_explanation(
    explained: ReleasedExplanation, receipt: bytes, policy: Path, folder: Path
) -> str:
    """Everything that it takes to check it later, as one run; its identifier."""
    mlflow, shown = _mlflow(folder), explained.explanation
    (promise,) = shown.guarantees
    protected = promise.protected
    explained.explanation.save(folder / _EXPLANATION)
    (folder / _RECEIPT).write_bytes(receipt)
    with mlflow.start_run(run_name=f"{RELEASE}, record {explained.records[0]}") as run:
        mlflow.log_params({"release": RELEASE, "unit": protected.unit, "data": protected.dataset})
        mlflow.log_metrics({"epsilon": promise.epsilon, "delta": promise.delta})
        names = enumerate(shown.feature_names)
        mlflow.log_metrics({f"value.{name}": float(shown.values[0, n, 0]) for n, name in names})
        mlflow.set_tags({"charge": explained.charges[0], "record": explained.records[0]})
        for path in (folder / _EXPLANATION, folder / _RECEIPT, policy):
            mlflow.log_artifact(str(path))
        mlflow.log_text(repr(shown), "explanation.txt")
        found: str = run.info.run_id
    return found


def checked(run: str, folder: Path) -> tuple[tuple[str, ...], bool]:
    """Take it out again, and verify it without asking the hospital."""
    client = _mlflow(folder).MlflowClient()
    names = tuple(sorted(each.path for each in client.list_artifacts(run)))
    out = folder / "taken-out"
    out.mkdir()
    proof = _EXPLANATION, _RECEIPT
    why, receipt = (client.download_artifacts(run, name, str(out)) for name in proof)
    # The policy that counts is the one that somebody trusted hands you, not the one in MLflow.
    report = voile.verify(why, receipt, policy=folder / "hospital" / _POLICY)
    return names, bool(report)


def _mlflow(folder: Path) -> Any:
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")
    os.environ.setdefault("MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR", "false")
    import mlflow

    if "MLFLOW_TRACKING_URI" not in os.environ:
        mlflow.set_tracking_uri((folder / "mlruns").absolute().as_uri())
    return mlflow


if __name__ == "__main__":
    story = main(Path(sys.argv[1] if len(sys.argv) > 1 else "mlflow-receipts"))
    print(story.explained.explanation)
    print(f"run {story.run}: {', '.join(story.logged)}")
    print("taken out of MLflow and verified offline" if story.verified else "NOT VERIFIED")
